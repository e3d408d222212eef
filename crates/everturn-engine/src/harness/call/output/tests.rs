//! Limits of an output, to the byte and to the line.

use everturn_core::{document::Operation, tool::Keep};

use super::{Buffer, Kept, OutputLimits};

const SMALL: OutputLimits = OutputLimits { bytes: 8, lines: 3, quota: 20 };

fn buffer(pieces: &[&[u8]]) -> Buffer {
    let buffer = Buffer::new(SMALL);
    pieces.iter().for_each(|piece| buffer.push(piece));
    buffer
}

fn text(kept: &Kept) -> &str {
    &kept.text
}

#[test]
fn what_fits_is_kept_as_it_is() {
    let kept = buffer(&[b"one\n", b"two\n"]).kept(Keep::Head);
    assert_eq!(kept, Kept { text: "one\ntwo\n".into(), truncated: false });
}

#[test]
fn a_long_output_keeps_the_part_that_is_asked_for() {
    let long = buffer(&[b"0123456789", b"abcdef"]);
    assert_eq!(text(&long.kept(Keep::Head)), "01234567\n(16 bytes in all, the rest is left out)");
    assert_eq!(text(&long.kept(Keep::Tail)), "(16 bytes in all, the rest is left out)\n89abcdef");
    assert_eq!(text(&long.kept(Keep::Both)), "0123\n(16 bytes in all, the rest is left out)\ncdef");
    assert!(long.kept(Keep::Both).truncated);
}

#[test]
fn many_lines_are_too_long_as_well() {
    let lines = buffer(&[b"a\nb\nc\nd\n"]);
    assert_eq!(text(&lines.kept(Keep::Head)), "a\nb\nc\n(8 bytes in all, the rest is left out)");
    assert_eq!(text(&lines.kept(Keep::Tail)), "(8 bytes in all, the rest is left out)\nb\nc\nd\n");
    assert!(!buffer(&[b"a\nb\nc\n"]).kept(Keep::Head).truncated);
}

#[test]
fn beyond_the_quota_only_the_end_is_kept() {
    let endless = buffer(&[]);
    (0..1_000_u32).for_each(|n| endless.push(format!("{n:04}").as_bytes()));
    assert_eq!(endless.whole().len(), 20, "what is kept for people has a limit");
    assert_eq!(text(&endless.kept(Keep::Tail)), "(4000 bytes in all, the rest is left out)\n09980999");
    let one_piece = buffer(&[&[b'x'; 5_000]]);
    assert_eq!(text(&one_piece.kept(Keep::Both)), "xxxx\n(5000 bytes in all, the rest is left out)\nxxxx");
}

#[test]
fn bytes_that_are_no_text_and_control_sequences_are_made_harmless() {
    let kept = buffer(&[b"a\xffb", b"\x1b[2K", b"c"]).kept(Keep::Head);
    assert_eq!(kept.text, "a\u{fffd}bc");
}

#[test]
fn what_is_shown_joins_to_what_was_written() {
    let buffer = buffer(&[]);
    let mut shown = String::new();
    for byte in "ä\u{1b}[1mö€".bytes() {
        buffer.push(&[byte]);
        if let Some(Operation::Append { text, .. }) = buffer.show() {
            shown += &text;
        }
    }
    assert_eq!(shown, "äö€");
    buffer.push("more than there is room for".as_bytes());
    assert!(matches!(buffer.show(), Some(Operation::Append { text, .. }) if text == "m"));
    assert!(buffer.show().is_none(), "what is shown has a limit");
}

#[test]
fn what_the_tool_gives_at_its_end_stands_on_a_line_of_its_own() {
    let buffer = buffer(&[b"out"]);
    buffer.push_last("end");
    assert_eq!(text(&buffer.kept(Keep::Head)), "out\nend");
}
