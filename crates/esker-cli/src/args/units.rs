//! Sizes and times as they are typed.

use std::time::Duration;

/// A number of bytes such as `4096`, `256M`, `2G` or `2GiB`: powers of 1,024.
pub(crate) fn parse_size(typed: &str) -> Result<usize, String> {
    let digits = typed.find(|c: char| !c.is_ascii_digit()).unwrap_or(typed.len());
    let (number, unit) = typed.split_at(digits);
    let shift = match unit.to_ascii_lowercase().trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => {
            return Err(
                "a size is a number of bytes, or a number followed by K, M, G or T, such as 256M".to_owned()
            );
        }
    };
    let number: usize = number.parse().map_err(|_| "a size begins with a whole number".to_owned())?;
    match number.checked_mul(1 << shift) {
        None | Some(0) => Err("the size is zero or too large".to_owned()),
        Some(bytes) => Ok(bytes),
    }
}

/// A time such as `90s`, `10m`, `12h` or `30d`.
pub(crate) fn parse_time(typed: &str) -> Result<Duration, String> {
    let form = || "a time is a whole number followed by s, m, h or d, such as 12h".to_owned();
    let unit = typed.chars().last().ok_or_else(form)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(form()),
    };
    let number: u64 = typed[..typed.len() - 1].parse().map_err(|_| form())?;
    let seconds = number.checked_mul(seconds).ok_or_else(|| "the time is too long".to_owned())?;
    Ok(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let times = [("0s", 0), ("90s", 90), ("10m", 600), ("12h", 43_200), ("30d", 2_592_000)];
        for (typed, seconds) in times {
            assert_eq!(parse_time(typed), Ok(Duration::from_secs(seconds)));
        }
        for typed in
            ["", "s", "10", "-1s", "1.5h", "1w", "1é", "99999999999999999999s", "9999999999999999999d"]
        {
            assert!(parse_time(typed).is_err(), "{typed}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("256M"), Ok(256 << 20));
        assert_eq!(parse_size("2g"), Ok(2 << 30));
        assert_eq!(parse_size("2GiB"), Ok(2 << 30));
        for typed in ["", "M", "0", "-1", "1.5G", "1X", "99999999999999999999", "99999999999T"] {
            assert!(parse_size(typed).is_err(), "{typed}");
        }
    }
}
