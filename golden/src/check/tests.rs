//! A planted violation of each kind is found, and a sound kernel has none.

use super::*;
use crate::sass::summarize;
use warplift::ir::manifest::{Argument, Expr, MANIFEST_VERSION, TensorMap};
use warplift::toolchain::Warning;

const SOUND: &str = "
        /*0000*/               @P0 BRA `(.L_producer) ;
        /*0010*/                   USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xe8 ;
.L_main:
        /*0020*/                   HGMMA.64x256x16.F32 R24, gdesc[UR20], R24, gsb0 ;
        /*0030*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*0040*/               @P1 BRA `(.L_main) ;
        /*0050*/                   UTMASTG.2D [UR16], [UR20] ;
        /*0060*/                   EXIT ;
.L_producer:
        /*0070*/                   USETMAXREG.DEALLOC.CTAPOOL 0x28 ;
        /*0080*/                   UTMALDG.2D [UR8], [UR4] ;
        /*0090*/                   IADD3 R30, R2, R3, RZ ;
        /*00a0*/                   EXIT ;
";

fn map(base: &str) -> Param {
    Param::TensorMap(TensorMap {
        base: base.into(),
        offset: Expr::zero(),
        element: "f16".into(),
        dims: vec![Expr::var("k"), Expr::var("m")],
        strides: vec![Expr::var("k")],
        box_dims: vec![64, 64],
        swizzle: 128,
        l2_promotion: 256,
    })
}

fn role(name: &str, warps: [u32; 2], registers: u32) -> RoleInfo {
    RoleInfo { name: name.into(), warps, registers }
}

fn manifest() -> Manifest {
    let argument = |name: &str, written| Argument {
        name: name.into(),
        ty: "ptr<f16>".into(),
        written,
        before_wait: false,
        packing: None,
    };
    Manifest {
        version: MANIFEST_VERSION,
        kernel: "gemm".into(),
        entry: "gemm".into(),
        target: "sm_90a".into(),
        arguments: vec![argument("a", false), argument("c", true)],
        params: vec![map("a"), map("c")],
        grid: [Expr::Const(1), Expr::Const(1), Expr::Const(1)],
        cluster: [1, 1, 1],
        block: 384,
        pdl: false,
        dynamic_shared: 0,
        workspace: Expr::zero(),
        roles: vec![role("producer", [0, 4], 40), role("consumer", [4, 8], 232)],
        facts: Vec::new(),
    }
}

/// A case that can be spoiled.
struct Plant {
    kernel: &'static str,
    manifest: Manifest,
    assembled: Assembled,
    sass: String,
    /// PTX; `None`: what the SASS comes from.
    ptx: Option<String>,
    accepted: Vec<Accepted>,
}

/// The rows that a listing comes from.
fn rows_of(sass: &Summary) -> String {
    let rows = ONE_BY_ONE.iter().map(|(row, opcode)| format!("{row} ").repeat(sass.count(opcode) as usize));
    rows.collect()
}

fn found(spoil: impl FnOnce(&mut Plant)) -> Vec<Violation> {
    let assembled = Assembled { registers: 168, ..Assembled::default() };
    let (sass, accepted) = (SOUND.to_owned(), Vec::new());
    let mut p = Plant { kernel: "gemm", manifest: manifest(), assembled, sass, ptx: None, accepted };
    spoil(&mut p);
    let sass = summarize(&p.sass).expect("a listing");
    let ptx = &p.ptx.clone().unwrap_or_else(|| rows_of(&sass));
    let Plant { kernel, manifest, assembled, accepted, .. } = &p;
    Evidence { kernel, product: true, ptx, manifest, assembled, sass: &sass }.violations(accepted)
}

fn with(old: &str, new: &str) -> Vec<Violation> {
    assert!(SOUND.contains(old), "nothing to plant {new} over");
    found(|p| p.sass = SOUND.replace(old, new))
}

#[test]
fn a_sound_kernel_has_none() {
    assert_eq!(found(|_| ()), []);
}

#[test]
fn spills_are_found() {
    let spill = found(|p| p.assembled.spills = (8, 4));
    assert_eq!(spill, [Violation::Spill { stores: 8, loads: 4, stack: 0 }]);
    let stack = found(|p| p.assembled.stack = 16);
    assert_eq!(stack, [Violation::Spill { stores: 0, loads: 0, stack: 16 }]);
    let local = with("IADD3 R30, R2, R3, RZ", "STL [R1], R2");
    assert_eq!(local, [Violation::Local { place: "producer", count: 1 }]);
    let setup = found(|p| p.sass = SOUND.replacen("/*0000*/", "/*0000*/ LDL R2, [R1] ;\n/*0008*/", 1));
    assert_eq!(setup, [Violation::Local { place: "setup", count: 1 }]);
}

fn warn(p: &mut Plant) {
    p.assembled.warnings.push(Warning { code: "C7519".into(), text: "serialized".into() });
}

#[test]
fn warnings_need_a_reason_and_gemms_have_none() {
    let warning = Violation::Warning { code: "C7519".into(), text: "serialized".into() };
    assert_eq!(found(warn), std::slice::from_ref(&warning));
    let accept = |kernel: &'static str, reason| {
        found(|p| {
            warn(p);
            p.kernel = kernel;
            p.accepted.push(Accepted { kernel, code: "C7519", reason });
        })
    };
    assert_eq!(accept("attention", "the group of P V waits for P"), []);
    assert_eq!(accept("attention", ""), std::slice::from_ref(&warning));
    let refused = Violation::AcceptedGemm { kernel: "gemm_x", code: "C7519" };
    assert_eq!(accept("gemm_x", "because"), [warning, refused]);
}

#[test]
fn missing_instructions_are_found() {
    for (opcode, other) in [("HGMMA", "FADD"), ("UTMALDG", "FADD"), ("UTMASTG", "FADD")] {
        let missing = |v: &Violation| matches!(v, Violation::Missing { opcode: o, .. } if *o == opcode);
        assert!(with(opcode, other).iter().any(missing), "{opcode}");
    }
    let plain = found(|p| {
        p.sass = SOUND.replace("UTMASTG.2D [UR16], [UR20]", "STG.E [R2.64], R4");
        p.manifest.params.pop();
    });
    assert_eq!(plain, [], "a result without a tensor map is stored plainly");
}

#[test]
fn rows_that_became_more_or_fewer_are_found() {
    let rows = "wgmma.mma_async cp.async.bulk.tensor.2d.shared::cluster.global ldmatrix.sync";
    let wrong = found(|p| p.ptx = Some(rows.to_owned()));
    let count = |row, opcode, ptx, sass| Violation::Count { row, opcode, ptx, sass };
    let stores = ".global.shared::cta";
    assert_eq!(wrong, [count("ldmatrix.sync", "LDSM", 1, 0), count(stores, "UTMASTG", 0, 1)]);
}

#[test]
fn products_of_warps_are_products() {
    let warps = found(|p| {
        p.sass = SOUND
            .replace("HGMMA.64x256x16.F32 R24, gdesc[UR20], R24, gsb0", "HMMA.16816.F32 R24, R4, R8, R24")
    });
    assert_eq!(warps, []);
}

#[test]
fn accumulator_copies_are_found() {
    let text = "MOV R4, R24".to_owned();
    let copy = with("WARPGROUP.DEPBAR.LE gsb0, 0x0 ;", "MOV R4, R24 ;");
    assert_eq!(copy, [Violation::AccumulatorCopy { role: "consumer", text }]);
}

#[test]
fn registers_over_the_budget_are_found() {
    let (role, used, budget) = ("producer".to_owned(), 41, 40);
    let over = with("IADD3 R30, R2, R3, RZ", "IADD3 R40, R2, R3, RZ");
    assert_eq!(over, [Violation::OverBudget { role, used, budget }]);
    let tuple = with("IADD3 R30, R2, R3, RZ", "LDS.128 R37, [R2]");
    assert_eq!(tuple.len(), 1, "the last of a tuple counts");
    let set = with("0xe8", "0xf0");
    assert_eq!(set, [Violation::Budget { role: "consumer".into(), set: 240, budget: 232 }]);
}

#[test]
fn roles_that_do_not_fit_the_pool_are_found() {
    let pool = found(|p| p.assembled.registers = 160);
    assert_eq!(pool, [Violation::Pool { wanted: 128 * 40 + 256 * 232, pool: 160 * 384 }]);
    let absent = found(|p| p.manifest.roles.push(role("epilogue", [12, 0], 40)));
    let found = "consumer, producer".to_owned();
    assert_eq!(absent, [Violation::Roles { role: "epilogue".into(), found }]);
}
