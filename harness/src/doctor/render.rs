//! An examination for people.

use std::fmt::{self, Write as _};

use anstyle::{AnsiColor, Style};

use super::{Check, Examination, Status};

/// Renders an examination as aligned lines, each fix below its check; with colours for a terminal.
pub fn render(examination: &Examination, colours: bool) -> String {
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _ = write(&mut text, examination, &Palette { colours });
    text
}

struct Palette {
    colours: bool,
}

impl Palette {
    /// Text in a style, or plain.
    fn paint(&self, style: Style, text: &str) -> String {
        if self.colours { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}

fn write(out: &mut String, examination: &Examination, palette: &Palette) -> fmt::Result {
    let checks = || examination.groups.iter().flat_map(|group| &group.checks);
    let width = checks().map(|check| check.name.chars().count()).max().unwrap_or(0);
    for group in &examination.groups {
        writeln!(out, "{}", palette.paint(Style::new().bold(), group.name))?;
        for check in &group.checks {
            write_check(out, check, width, palette)?;
        }
        writeln!(out)?;
    }
    writeln!(out, "{}", palette.paint(verdict_style(examination), &verdict(examination)))
}

fn write_check(out: &mut String, check: &Check, width: usize, palette: &Palette) -> fmt::Result {
    let (sign, style) = sign(check.status);
    let name = palette.paint(if check.status == Status::Ok { Style::new() } else { style }, &check.name);
    let gap = " ".repeat(width - check.name.chars().count());
    writeln!(out, "  {} {name}{gap}  {}", palette.paint(style, sign), check.found)?;
    match &check.fix {
        Some(fix) => writeln!(out, "    {}  {}", " ".repeat(width), palette.paint(Style::new().dimmed(), fix)),
        None => Ok(()),
    }
}

fn sign(status: Status) -> (&'static str, Style) {
    let colour = |colour: AnsiColor| Style::new().fg_color(Some(colour.into()));
    match status {
        Status::Ok => ("✓", colour(AnsiColor::Green)),
        Status::Degraded => ("!", colour(AnsiColor::Yellow)),
        Status::Lacking => ("✗", colour(AnsiColor::Red)),
    }
}

fn verdict_style(examination: &Examination) -> Style {
    let worst = examination.groups.iter().flat_map(|group| &group.checks).map(|check| check.status).max();
    sign(worst.unwrap_or(Status::Ok)).1.bold()
}

fn verdict(examination: &Examination) -> String {
    let parts = |count: usize, one: &str, many: &str| match count {
        1 => format!("1 part that {one}"),
        _ => format!("{count} parts that {many}"),
    };
    match (examination.count(Status::Lacking), examination.count(Status::Degraded)) {
        (0, 0) => "All checks passed.".to_owned(),
        (0, degraded) => {
            let missing = parts(degraded, "few scenarios need is not", "few scenarios need are not");
            format!("All that `svclab run` needs is there; {missing}.")
        }
        (lacking, _) => {
            format!("{}.", parts(lacking, "`svclab run` needs is lacking", "`svclab run` needs are lacking"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Group;

    fn examination() -> Examination {
        let degraded = Check::lacking("TRACE", "iptables-legacy IPv4: no", "Load it.").optional();
        let lacking = Check::lacking("br_netfilter", "no such file or directory", "Load the module.");
        Examination {
            groups: vec![
                Group { name: "privileges", checks: vec![Check::ok("namespaces", "created and left")] },
                Group { name: "kernel", checks: vec![lacking, degraded] },
            ],
        }
    }

    #[test]
    fn columns_are_aligned_and_fixes_stand_below() {
        let expected = "\
privileges
  ✓ namespaces    created and left

kernel
  ✗ br_netfilter  no such file or directory
                  Load the module.
  ! TRACE         iptables-legacy IPv4: no
                  Load it.

1 part that `svclab run` needs is lacking.
";
        assert_eq!(render(&examination(), false), expected);
    }

    #[test]
    fn colours_change_no_letter() {
        let coloured = render(&examination(), true);
        let mut plain = String::new();
        let mut escaped = false;
        for letter in coloured.chars() {
            match letter {
                '\u{1b}' => escaped = true,
                'm' if escaped => escaped = false,
                _ if escaped => {}
                _ => plain.push(letter),
            }
        }
        assert_ne!(coloured, plain);
        assert_eq!(plain, render(&examination(), false));
    }

    #[rstest::rstest]
    #[case(vec![Check::ok("a", "")], "All checks passed.")]
    #[case(vec![Check::ok("a", ""), Check::lacking("b", "", "").optional()], "All that `svclab run` needs is there; 1 part that few scenarios need is not.")]
    #[case(vec![Check::lacking("a", "", "").optional(), Check::lacking("b", "", "").optional()], "All that `svclab run` needs is there; 2 parts that few scenarios need are not.")]
    #[case(vec![Check::lacking("a", "", ""), Check::lacking("b", "", "").optional()], "1 part that `svclab run` needs is lacking.")]
    #[case(vec![Check::lacking("a", "", ""), Check::lacking("b", "", "")], "2 parts that `svclab run` needs are lacking.")]
    fn the_last_line_sums_up(#[case] checks: Vec<Check>, #[case] expected: &str) {
        let examination = Examination { groups: vec![Group { name: "kernel", checks }] };
        assert_eq!(verdict(&examination), expected);
        assert_eq!(examination.is_enough(), !expected.contains("lacking"));
    }
}
