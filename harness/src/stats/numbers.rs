//! Numbers, chances and shares in words.

/// A probability in words: `0.03`, `1 in 4e7`, `0`.
pub(super) fn chance(p_value: f64) -> String {
    match p_value {
        p if p <= 0.0 => "0".to_owned(),
        p if p < 0.001 => format!("1 in {}", power_of_ten(1.0 / p)),
        p => format!("{p:.2}"),
    }
}

/// A very great or small number with one digit: `1e-6`, `4e7`.
pub(super) fn power_of_ten(number: f64) -> String {
    format!("{number:.0e}")
}

/// A share in percent, with as many digits as it takes to see it: `33.3 %`, `4.1 %`, `0.52 %`.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let decimals = match percent.abs() {
        size if size >= 100.0 || size == 0.0 => 0,
        size if size >= 1.0 => 1,
        size => ((1.0 - size.log10().floor()) as usize).min(12),
    };
    format!("{percent:.decimals$} %")
}
