//! Renders an examination as text.

use anstyle::Style;

use super::{Check, Examination, Status};
use crate::page::{BAD, FAINT, GOOD, MARKED, Page, STRONG, Settings};
use crate::text::counted;

/// Renders an examination as aligned lines, each fix below its check.
pub fn render(examination: &Examination, settings: Settings) -> String {
    let mut page = Page::new(settings);
    let checks = || examination.groups.iter().flat_map(|group| &group.checks);
    let width = checks().map(|check| check.name.chars().count()).max().unwrap_or(0);
    for group in &examination.groups {
        page.line(0, page.paint(STRONG, &group.name));
        group.checks.iter().for_each(|check| write(&mut page, check, width));
        page.gap();
    }
    let worst = checks().map(|check| check.status).max();
    page.line(0, page.paint(sign(worst.unwrap_or(Status::Ok)).1.bold(), verdict(examination)));
    page.finish()
}

fn write(page: &mut Page, check: &Check, width: usize) {
    let (sign, style) = sign(check.status);
    let name_style = if check.status == Status::Ok { Style::new() } else { style };
    let name = page.paint(name_style, format!("{:width$}", check.name));
    page.labelled(2, format!("{} {name}  ", page.paint(style, sign)), &check.found);
    if let Some(fix) = &check.fix {
        page.labelled(width + 6, "", page.paint(FAINT, fix));
    }
}

fn sign(status: Status) -> (&'static str, Style) {
    match status {
        Status::Ok => ("✓", GOOD),
        Status::Degraded => ("!", MARKED),
        Status::Lacking => ("✗", BAD),
    }
}

fn verdict(examination: &Examination) -> String {
    let failed = |number: usize, kind: &str| {
        let (verb, thing) = (if number == 1 { "fails" } else { "fail" }, format!("{kind} check"));
        format!("{} {verb}", counted(number, &thing))
    };
    match (examination.count(Status::Lacking), examination.count(Status::Degraded)) {
        (0, 0) => "All checks passed.".to_owned(),
        (0, degraded) => format!("`svclab run` works here; {}.", failed(degraded, "optional")),
        (lacking, _) => format!("`svclab run` does not work here: {}.", failed(lacking, "required")),
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
                Group { name: "privileges".into(), checks: vec![Check::ok("namespaces", "created and left")] },
                Group { name: "kernel".into(), checks: vec![lacking, degraded] },
            ],
        }
    }

    #[test]
    fn columns_are_aligned_and_fixes_are_below() {
        let expected = "\
privileges
  ✓ namespaces    created and left

kernel
  ✗ br_netfilter  no such file or directory
                  Load the module.
  ! TRACE         iptables-legacy IPv4: no
                  Load it.

`svclab run` does not work here: 1 required check fails.
";
        assert_eq!(render(&examination(), Settings::default()), expected);
    }

    #[test]
    fn long_fixes_are_wrapped_in_their_column() {
        let fix = "Load the module br_netfilter, or run svclab on a host where it is loaded.";
        let checks = vec![Check::lacking("br_netfilter", "no such file or directory", fix)];
        let examination = Examination { groups: vec![Group { name: "kernel".into(), checks }] };
        let page = render(&examination, Settings { width: 60, ..Settings::default() });
        let wrapped = "                  Load the module br_netfilter, or run\n                  svclab on a host where it is loaded.\n";
        assert!(page.contains(wrapped), "{page}");
    }

    #[rstest::rstest]
    #[case(vec![Check::ok("a", "")], "All checks passed.")]
    #[case(vec![Check::ok("a", ""), Check::lacking("b", "", "").optional()], "`svclab run` works here; 1 optional check fails.")]
    #[case(vec![Check::lacking("a", "", "").optional(), Check::lacking("b", "", "").optional()], "`svclab run` works here; 2 optional checks fail.")]
    #[case(vec![Check::lacking("a", "", ""), Check::lacking("b", "", "").optional()], "`svclab run` does not work here: 1 required check fails.")]
    #[case(vec![Check::lacking("a", "", ""), Check::lacking("b", "", "")], "`svclab run` does not work here: 2 required checks fail.")]
    fn the_last_line_sums_up(#[case] checks: Vec<Check>, #[case] expected: &str) {
        let examination = Examination { groups: vec![Group { name: "kernel".into(), checks }] };
        assert_eq!(verdict(&examination), expected);
        assert_eq!(examination.is_enough(), !expected.contains("does not work"));
    }
}
