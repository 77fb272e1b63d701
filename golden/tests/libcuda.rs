//! A crate that links libcuda itself links beside ours, wherever it has one from, and without one ours links too.
//!
//! ```text
//!  probe: bin `calls`  cuInit by -lcuda ─┐             libcuda.so, a stub: in a folder of the probe's build script,
//!         bin `plain`  nothing of it     ├─► linked?   of RUSTFLAGS, of LIBRARY_PATH, in a toolkit, or nowhere
//!  beside: our build script (or all of us) ─┘
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Our build script as a package that has nothing else.
const BESIDE: &str =
    "[package]\nname = \"warplift\"\nversion = \"0.1.0\"\nedition = \"2024\"\nbuild = \"build.rs\"\n
[features]\ndefault = [\"cuda\"]\ncuda = []\n\n[dependencies]\ncuda-driver-sys = \"0.3\"\n";

/// Names a folder where the variable says so.
const SCRIPT: &str = r#"fn main() {
    println!("cargo:rerun-if-env-changed=PROBE_FOLDER");
    if let Ok(folder) = std::env::var("PROBE_FOLDER") {
        println!("cargo:rustc-link-search=native={folder}");
    }
}
"#;

const CALLS: &str = r#"use warplift as _;
#[link(name = "cuda")]
unsafe extern "C" {
    fn cuInit(flags: u32) -> u32;
}
fn main() {
    std::process::exit(unsafe { cuInit(0) } as i32)
}
"#;

const PLAIN: &str = "use warplift as _;\nfn main() {}\n";

/// Variables that a machine may have set, and those of the cargo that runs this test.
const UNSET: [&str; 9] = [
    "LIBRARY_PATH",
    "CUDA_LIBRARY_PATH",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_ROOT",
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_TARGET_DIR",
    "CARGO_BUILD_TARGET_DIR",
];

struct Probe {
    folder: PathBuf,
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

impl Probe {
    /// A crate beside the package in `beside`, with a stub in `stub` and in a toolkit.
    fn new(name: &str, beside: &Path) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&folder);
        let manifest = format!(
            "[package]\nname = \"probe\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n
[profile.dev]\ndebug = false\n\n[dependencies]\nwarplift = {{ path = {beside:?} }}\n"
        );
        write(&folder.join("Cargo.toml"), &manifest);
        write(&folder.join("build.rs"), SCRIPT);
        write(&folder.join("src/bin/calls.rs"), CALLS);
        write(&folder.join("src/bin/plain.rs"), PLAIN);
        // The versions that are here: nothing is fetched.
        fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
        let probe = Self { folder };
        for at in ["stub", "toolkit/lib64/stubs"] {
            probe.stub(at);
        }
        probe
    }

    fn path(&self, at: &str) -> String {
        self.folder.join(at).to_str().unwrap().to_owned()
    }

    /// A libcuda of one function.
    fn stub(&self, at: &str) {
        let source = self.folder.join("stub.c");
        write(&source, "unsigned cuInit(unsigned flags) { return flags; }\n");
        fs::create_dir_all(self.path(at)).unwrap();
        let library = self.path(&format!("{at}/libcuda.so"));
        let made =
            Command::new("cc").args(["-shared", "-fPIC", "-o", &library]).arg(&source).status().unwrap();
        assert!(made.success());
    }

    /// Whether a program links under these variables, or the linker's words.
    fn links(&self, bin: &str, variables: &[(&str, String)]) -> Result<(), String> {
        let mut cargo = Command::new(std::env::var_os("CARGO").expect("cargo sets it"));
        for variable in UNSET {
            cargo.env_remove(variable);
        }
        cargo.args(["build", "--offline", "--quiet", "--bin", bin]).current_dir(&self.folder);
        let made = cargo.envs(variables.iter().cloned()).output().unwrap();
        if made.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&made.stderr).into_owned()) }
    }

    fn check(&self) {
        let rustflags = format!("-L native={}", self.path("stub"));
        for (variable, value) in [
            ("PROBE_FOLDER", self.path("stub")),
            ("LIBRARY_PATH", self.path("stub")),
            ("CUDA_HOME", self.path("toolkit")),
            ("RUSTFLAGS", rustflags),
        ] {
            let with = [(variable, value)];
            assert_eq!(self.links("calls", &with), Ok(()), "{variable}");
            assert_eq!(self.links("plain", &with), Ok(()), "{variable}");
        }
        assert_eq!(self.links("plain", &[]), Ok(()), "without a libcuda");
        // It was the stub that made it link, where the machine has no libcuda of its own.
        if !machine_has_one() {
            let said = self.links("calls", &[]).unwrap_err();
            assert!(said.contains("cuInit"), "{said}");
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

fn machine_has_one() -> bool {
    let asked = Command::new("cc").arg("-print-file-name=libcuda.so").output().unwrap();
    let known = Path::new(String::from_utf8_lossy(&asked.stdout).trim()).is_absolute();
    known || ["/usr/local/cuda", "/opt/cuda", "/usr/lib64/libcuda.so"].iter().any(|p| Path::new(p).exists())
}

#[test]
fn a_crate_that_links_libcuda_links_beside_our_build_script() {
    let beside = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libcuda_beside");
    let driver = root().join("driver");
    write(&beside.join("Cargo.toml"), BESIDE);
    write(&beside.join("src/lib.rs"), "pub use cuda_driver_sys::CUdevice;\n");
    fs::create_dir_all(beside.join("nowhere")).unwrap();
    for file in ["build.rs", "nowhere/libcuda.a"] {
        fs::copy(driver.join(file), beside.join(file)).unwrap();
    }
    Probe::new("libcuda_script", &beside).check();
}

/// The same beside the library as it is: `.ci/more`, since the probe compiles all of it.
#[test]
#[ignore = "compiles the library once more, for minutes"]
fn a_crate_that_links_libcuda_links_beside_the_library() {
    Probe::new("libcuda_library", &root().join("driver")).check();
}
