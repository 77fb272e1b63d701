//! Small kernels from a body: declarations around it, buffers in and out.

use warplift_sim::{
    Adversary, Hazard, Hazards, Launch, Memory, Options, ParamValue, Report, SimError, parse, run,
};

/// A kernel's body and its launch. Parameters are `in` and `out`, both u64.
pub struct Kernel<'a> {
    pub name: &'a str,
    pub body: &'a str,
    pub block: u32,
    pub cluster: u32,
    pub grid: u32,
    pub shared: u32,
    pub input: Vec<u8>,
    pub out_bytes: usize,
}

impl Default for Kernel<'_> {
    fn default() -> Self {
        Self {
            name: "",
            body: "",
            block: 32,
            cluster: 1,
            grid: 1,
            shared: 4096,
            input: vec![0; 16],
            out_bytes: 0,
        }
    }
}

impl Kernel<'_> {
    pub fn text(&self) -> String {
        let cluster = match self.cluster {
            1 => String::new(),
            n => format!(".explicitcluster .reqnctapercluster {n}, 1, 1\n"),
        };
        format!(
            ".version 8.4\n.target sm_90a\n.address_size 64\n.file 1 \"body\"\n.extern .shared .align 1024 .b8 smem[];\n\
             .visible .entry k(.param .u64 in, .param .u64 out)\n.reqntid {}\n{cluster}{{\n\
             .reg .pred %p<16>;\n.reg .b16 %h<8>;\n.reg .b32 %r<64>;\n.reg .f32 %f<64>;\n.reg .b64 %rd<32>;\n\
             ld.param.u64 %rd1, [in];\nld.param.u64 %rd2, [out];\nmov.u32 %r1, smem;\nmov.u32 %r2, %tid.x;\n\
             {}\nret;\n}}\n",
            self.block, self.body
        )
    }

    /// The output buffer after a run.
    pub fn run(&self, options: &Options) -> Result<(Report, Vec<u8>), SimError> {
        let ptx = self.text();
        if let Ok(folder) = std::env::var("WARPLIFT_LITMUS_OUT") {
            std::fs::write(format!("{folder}/{}.ptx", self.name), &ptx).expect("the folder is there");
        }
        let module = parse(&ptx).unwrap_or_else(|e| panic!("{}: {e}\n{ptx}", self.name));
        let mut memory = Memory::new();
        let input = memory.alloc("in", self.input.clone());
        let out = memory.alloc("out", vec![0xaa; self.out_bytes]);
        let mut launch = Launch::new(&module, "k");
        launch.grid = [self.grid, 1, 1];
        launch.cluster = [self.cluster, 1, 1];
        launch.block = self.block;
        launch.dynamic_shared = self.shared;
        launch.params = vec![ParamValue::Pointer(input, 0), ParamValue::Pointer(out, 0)];
        let report = run(&launch, &mut memory, options)?;
        Ok((report, memory.bytes(out).to_vec()))
    }

    /// The output as words, the same under every adversary and without a hazard.
    pub fn words(&self) -> Vec<u32> {
        let mut first = None;
        for o in orders() {
            let (_, out) = self.run(&o).unwrap_or_else(|e| panic!("{} {o:?}: {e}", self.name));
            let out = first.get_or_insert_with(|| out.clone()).clone() == out;
            assert!(out, "{}: the result depends on the order", self.name);
        }
        let bytes = first.unwrap_or_default();
        bytes.chunks(4).map(|c| u32::from_le_bytes(c.try_into().expect("4 bytes"))).collect()
    }

    /// All hazards that any adversary meets.
    pub fn hazards(&self) -> Vec<Hazard> {
        let mut all: Vec<Hazard> = Vec::new();
        for mut o in orders() {
            o.hazards = Hazards::Warn;
            let (report, _) = self.run(&o).unwrap_or_else(|e| panic!("{}: {e}", self.name));
            for h in report.hazards {
                if !all.iter().any(|k| k.kind == h.kind) {
                    all.push(h);
                }
            }
        }
        all
    }
}

/// Both extremes and a few seeds.
pub fn orders() -> Vec<Options> {
    let with = |seed, order| Options { seed, order, max_steps: 2_000_000, ..Options::default() };
    let mut all = vec![with(0, Adversary::Earliest), with(0, Adversary::Latest)];
    all.extend((1..5).map(|s| with(s, Adversary::Random)));
    all
}
