"""What a manifest's facts ask of a launch's arguments, in plain Python.

`values` has each argument by its name, pointers as integers; `sizes` has the bytes behind each pointer, where
they are known.
"""

FUNCTIONS = {"cdiv": lambda a, b: -(-a // b), "div": lambda a, b: a // b,
             "mod": lambda a, b: a % b, "min": min, "max": max, "__builtins__": {}}


def aligned(fact, values, _sizes):
    """A pointer is a multiple of so many bytes."""
    name, align = fact["name"], fact["align"]
    return values[name] % align == 0, f"`{name}` = {values[name]:#x} must be aligned to {align} bytes"


def multiple(fact, values, _sizes):
    """An integer is a multiple of another."""
    name, divisor = fact["name"], fact["of"]
    return values[name] % divisor == 0, f"`{name}` = {values[name]} must be a multiple of {divisor}"


def within(what, value, fact):
    """A number lies in a closed range."""
    return fact["min"] <= value <= fact["max"], f"{what} = {value} must be in {fact['min']}..={fact['max']}"


def in_range(fact, values, _sizes):
    """An integer argument lies in a closed range."""
    return within(f"`{fact['name']}`", values[fact["name"]], fact)


def limit(fact, values, _sizes):
    """A number made of arguments lies in a closed range."""
    return within(fact["what"], eval(fact["value"], dict(FUNCTIONS, **values)), fact)  # pylint: disable=eval-used


def disjoint(fact, values, sizes):
    """What is written through one pointer lies apart from what another points to."""
    one, other = fact["written"], fact["other"]
    ends = {name: values[name] + sizes.get(name, 0) for name in (one, other)}
    apart = ends[one] <= values[other] or ends[other] <= values[one]
    return apart, f"`{one}` is written and overlaps `{other}`"


CHECKS = {"aligned": aligned, "multiple": multiple, "range": in_range, "limit": limit, "disjoint": disjoint}


def check(facts, values, sizes):
    """Raises ValueError where an argument breaks what the kernel was compiled for."""
    for fact in facts:
        if fact["fact"] not in CHECKS:
            raise ValueError(f"the manifest states a fact of an unknown kind, `{fact['fact']}`")
        holds, message = CHECKS[fact["fact"]](fact, values, sizes)
        if not holds:
            raise ValueError(message)
