//! The reader on small listings.

use super::*;

/// A product loop behind a dispatch, with a spin loop at the end of the listing, and a producer.
const ROLES: &str = "
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/               @P0 BRA `(.L_producer) ;
.L_alloc:
        /*0020*/                   USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xe8 ;
        /*0030*/              @!P0 BRA `(.L_alloc) ;
        /*0040*/                   CS2R R24, SRZ ;
.L_main:
        /*0050*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR24+0x38000], R4 ;
        /*0060*/              @!P0 BRA `(.L_spin) ;
.L_ready:
        /*0070*/                   HGMMA.64x256x16.F32 R24, gdesc[UR20], R24 ;
        /*0080*/                   HGMMA.64x256x16.F32 R24, gdesc[UR20], R24, gsb0 ;
        /*0090*/                   UIADD3 UR4, UR4, 0x1, URZ ;
        /*00a0*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*00b0*/               @P1 BRA `(.L_main) ;
        /*00c0*/                   STSM.16.M88.4 [R7+0x30000], R200 ;
        /*00d0*/                   EXIT ;
.L_producer:
        /*00e0*/                   USETMAXREG.DEALLOC.CTAPOOL 0x28 ;
.L_load:
        /*00f0*/                   UTMALDG.2D [UR8], [UR4] ;
        /*0100*/               @P1 BRA `(.L_load) ;
        /*0110*/                   EXIT ;
.L_spin:
        /*0120*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR24+0x38000], R4 ;
        /*0130*/              @!P0 BRA `(.L_spin) ;
        /*0140*/                   BRA `(.L_ready) ;
.L_tail:
        /*0150*/                   BRA `(.L_tail);
        /*0160*/                   NOP;
";

fn one(text: &str) -> Instruction {
    let (code, _) = parse(&format!("/*0000*/ {text} ;")).expect("an instruction");
    code[0].clone()
}

fn tuple(first: u32, count: u32) -> Registers {
    Registers { first, count }
}

#[test]
fn an_instruction_is_taken_apart() {
    let i = one("@!P0 IMAD.MOV.U32 R2, RZ, RZ, -R3");
    assert_eq!((i.guard.as_deref(), i.name()), (Some("@!P0"), "IMAD"));
    assert!(i.has("MOV") && i.has("U32") && !i.has("WIDE"));
    assert_eq!(i.operands, ["R2", "RZ", "RZ", "-R3"]);
    assert_eq!(one("BRA `(.L_x_3)").label(), Some(".L_x_3"));
    assert_eq!(parse("no code"), Err(SassError::Empty));
}

#[test]
fn tuples_have_their_widths() {
    let written = |text| one(text).written();
    assert_eq!(written("HGMMA.64x256x16.F32 R24, gdesc[UR20], R24, gsb0"), Some(tuple(24, 128)));
    assert_eq!(written("HGMMA.64x64x16.F16 R24, gdesc[UR20], R24"), Some(tuple(24, 16)));
    assert_eq!(written("LDG.E.128 R8, desc[UR4][R2.64]"), Some(tuple(8, 4)));
    assert_eq!(written("LDSM.16.M88.2 R8, [R3]"), Some(tuple(8, 2)));
    assert_eq!(written("IMAD.WIDE R6, R3, 0x4, R4"), Some(tuple(6, 2)));
    assert_eq!(written("CS2R R24, SRZ"), Some(tuple(24, 2)));
    assert_eq!(written("ISETP.GE.AND P0, PT, R4, R7, PT"), None);
    assert_eq!(written("STG.E.64 desc[UR4][R2.64], R8"), None);
    assert_eq!(written("BAR.SYNC.DEFER_BLOCKING R5, 0x80"), None);
    let named = |text: &str| one(text).registers();
    assert_eq!(named("STG.E.64 desc[UR4][R2.64+0x10], R8"), [tuple(2, 2), tuple(8, 2)]);
    assert_eq!(named("STSM.16.M88.4 [R7+0x30000], R16"), [tuple(7, 1), tuple(16, 4)]);
    let product = named("HGMMA.64x128x16.F32 R64, R128, gdesc[UR8], R64");
    assert_eq!(product, [tuple(64, 64), tuple(128, 4), tuple(64, 64)]);
    assert_eq!(named("FFMA R1, |R2|, c[0x0][0x28], -R5.reuse"), [tuple(1, 1), tuple(2, 1), tuple(5, 1)]);
}

#[test]
fn copies_are_seen_in_both_spellings() {
    assert_eq!(one("MOV R2, R30").copied(), Some(30));
    assert_eq!(one("IMAD.MOV.U32 R2, RZ, RZ, R31").copied(), Some(31));
    assert_eq!(one("MOV R2, 0x10").copied(), None);
    assert_eq!(one("IMAD.MOV.U32 R2, RZ, RZ, RZ").copied(), None);
    assert_eq!(one("IMAD R2, R3, R4, R5").copied(), None);
    assert_eq!(one("IMAD.MOV R4, RZ, RZ, -R6").copied(), None);
}

#[test]
fn roles_are_what_their_register_changes_lead_to() {
    let s = summarize(ROLES).expect("a listing");
    let names: Vec<_> = s.roles.iter().map(|r| (r.name, r.set, r.registers)).collect();
    assert_eq!(names, [("consumer", Some(232), 204), ("producer", Some(40), 0)]);
    assert_eq!((s.setup.total, s.setup_registers), (2, 2));
    assert_eq!((s.count("HGMMA"), s.count("UTMALDG"), s.count("BRA")), (2, 1, 7));
}

#[test]
fn a_loop_with_its_spin_at_the_end_is_one_loop() {
    let s = summarize(ROLES).expect("a listing");
    let consumer = &s.roles[0];
    assert_eq!((consumer.loops.len(), consumer.waits), (1, 2));
    let main = &consumer.loops[0];
    assert!(main.multiplies);
    assert_eq!(main.counts.total, 10);
    assert_eq!((main.depth, &main.accumulators[..]), (0, &[tuple(24, 128)][..]));
    assert_eq!((main.copies.len(), main.writes), (0, 0));
    assert_eq!(
        consumer.groups.iter().collect::<Vec<_>>(),
        [(&"in a loop, up to the wait: uniform 1".to_owned(), &1)]
    );
}

#[test]
fn touched_accumulators_are_counted() {
    let text = ROLES.replace("UIADD3 UR4, UR4, 0x1, URZ", "IMAD.MOV.U32 R8, RZ, RZ, R151");
    let s = summarize(&text).expect("a listing");
    assert_eq!(s.roles[0].loops[0].copies, ["IMAD.MOV.U32 R8, RZ, RZ, R151"]);
    let text = ROLES.replace("UIADD3 UR4, UR4, 0x1, URZ", "FMUL R24, R24, R3");
    assert_eq!(summarize(&text).expect("a listing").roles[0].loops[0].writes, 1);
    let text = ROLES.replace("UIADD3 UR4, UR4, 0x1, URZ", "MOV R8, R152");
    assert!(summarize(&text).expect("a listing").roles[0].loops[0].copies.is_empty());
}

#[test]
fn nested_loops_have_depths_and_only_the_inner_multiplies() {
    let text = ROLES.replace(
        "/*00d0*/                   EXIT ;",
        "/*00c8*/               @P2 BRA `(.L_outer) ;\n /*00d0*/                   EXIT ;",
    );
    let text = text.replace("        /*0040*/", ".L_outer:\n        /*0040*/");
    let s = summarize(&text).expect("a listing");
    let loops: Vec<_> = s.roles[0].loops.iter().map(|l| (l.depth, l.multiplies)).collect();
    assert_eq!(loops, [(0, false), (1, true)]);
    assert_eq!(s.roles[0].loops[0].writes, 1, "the zeros at the start of a tile");
}

#[test]
fn a_kernel_without_register_changes_has_one_role() {
    let text =
        "/*0000*/ LDG.E R4, desc[UR4][R2.64] ;\n/*0010*/ @P0 EXIT ;\n/*0020*/ STG.E desc[UR4][R2.64], R9 ;
        /*0030*/ EXIT ;\n/*0040*/ MOV R99, R1 ;";
    let s = summarize(text).expect("a listing");
    assert_eq!((s.roles.len(), s.roles[0].name, s.roles[0].registers), (1, "all", 10));
    assert_eq!(s.setup.total, 0);
    assert!(s.to_string().contains("4 instructions, LDG 1, STG 1"), "{s}");
}

#[test]
fn jumps_that_cannot_be_followed_are_errors() {
    let lost = summarize("/*0010*/ BRA `(.L_nowhere) ;");
    assert_eq!(lost, Err(SassError::Label { address: 16, label: ".L_nowhere".into() }));
    let indirect = summarize("/*0010*/ BRX R4 -0x10 ;");
    assert!(matches!(indirect, Err(SassError::Indirect { address: 16, .. })), "{indirect:?}");
}

#[test]
fn meeting_points_are_followed() {
    let text =
        "/*0000*/ BSSY B0, `(.L_meet) ;\n/*0010*/ @P0 BRA `(.L_cold) ;\n.L_meet:\n/*0020*/ FADD R1, R1, R2 ;
        /*0030*/ EXIT ;\n.L_cold:\n/*0040*/ MUFU.EX2 R2, R2 ;\n/*0050*/ BSYNC B0 ;";
    let flow = Flow::new(parse(text).expect("a listing")).expect("a flow");
    let cold = flow.blocks.iter().position(|b| b.range.start == 4).expect("the cold block");
    let meet = flow.blocks.iter().position(|b| b.range.start == 2).expect("the meeting block");
    assert_eq!(flow.blocks[cold].next, [meet]);
}
