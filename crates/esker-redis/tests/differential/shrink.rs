//! What led to a difference, in short: steps are repeated without some of them, as long as the difference stays.

use std::time::{Duration, Instant};

use crate::compare::Difference;
use crate::generator::Arg;
use crate::pair::{Pair, Step, written};

/// A failure is made shorter for so long at most.
const SHRINKING: Duration = Duration::from_secs(10);

/// What a difference has in common with others of the same cause.
pub(crate) fn sign(steps: &[Step], difference: &Difference) -> String {
    let Some(Step::Command { args, .. }) = steps.last() else { return difference.what.clone() };
    let name = String::from_utf8_lossy(&written(&args[..1], 0)[0]).to_ascii_lowercase();
    let begin = |text: &str| text.chars().take(8).filter(|c| !c.is_ascii_digit()).collect::<String>();
    format!("{name} {} {} {}", begin(&difference.what), begin(&difference.redis), begin(&difference.memory))
}

/// What is compared besides replies and events when steps are repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Nothing,
    /// All states after each step.
    States,
    /// Elements that are left at the end.
    Elements,
}

/// Repeats steps, and looks. Returns how many it took to find a difference.
fn replay(pair: &mut Pair, steps: &[Step], look: Look) -> Option<(usize, Difference)> {
    pair.reset();
    for (at, step) in steps.iter().enumerate() {
        if let Err(difference) = pair.step(step) {
            return Some((at + 1, difference));
        }
        if look == Look::States
            && let Err((_, difference)) = pair.compare_all()
        {
            return Some((at + 1, difference));
        }
    }
    if look == Look::Elements {
        count_elements(pair).map(|difference| (steps.len(), difference))
    } else {
        None
    }
}

/// Elements that are left when all keys are deleted.
pub(crate) fn count_elements(pair: &mut Pair) -> Option<Difference> {
    let left = pair.left_by_deletion();
    (left > 0).then(|| Difference {
        what: "elements".to_owned(),
        redis: "0".to_owned(),
        memory: left.to_string(),
    })
}

/// Fewer and shorter steps that end in a difference, as far as that takes little time.
fn shrink(pair: &mut Pair, steps: &[Step], keys: &[Vec<u8>], look: Look) -> Option<(Vec<Step>, Difference)> {
    let concerns = |step: &&Step| match step {
        Step::Command { args, .. } => {
            written(args, 0).iter().skip(1).any(|arg| keys.contains(arg)) || args.len() < 3
        }
        _ => true,
    };
    let fewer: Vec<Step> = steps.iter().filter(concerns).cloned().collect();
    let mut found = None;
    for mut steps in [fewer, steps.to_vec()] {
        if let Some((len, difference)) = replay(pair, &steps, look) {
            steps.truncate(len);
            found = Some((steps, difference));
            break;
        }
    }
    let mut found = found?;
    let until = Instant::now() + SHRINKING;
    let mut is_same = |steps: &[Step], found: &mut (Vec<Step>, Difference)| {
        let Some((len, difference)) = replay(pair, steps, look) else { return false };
        let is_same = sign(&steps[..len], &difference) == sign(&found.0, &found.1);
        if is_same {
            *found = (steps[..len].to_vec(), difference);
        }
        is_same
    };
    let mut part = found.0.len().div_ceil(2);
    while part > 0 {
        let mut at = 0;
        while at < found.0.len() && Instant::now() < until {
            let mut steps = found.0.clone();
            steps.drain(at..(at + part).min(steps.len()));
            if !is_same(&steps, &mut found) {
                at += part;
            }
        }
        part /= 2;
    }
    for at in 0..found.0.len() {
        let mut part = 64;
        while part > 0 {
            let mut from = 2;
            while let Some(Step::Command { args, .. }) = found.0.get(at)
                && from + part <= args.len()
                && Instant::now() < until
            {
                let mut steps = found.0.clone();
                if let Step::Command { args, .. } = &mut steps[at] {
                    args.drain(from..from + part);
                }
                if !is_same(&steps, &mut found) {
                    from += part;
                }
            }
            part /= 2;
        }
    }
    Some(found)
}

/// Prints a difference, what led to it, and what was done to its keys before.
pub(crate) fn report(pair: &mut Pair, seed: u64, steps: &[Step], keys: &[Vec<u8>], difference: &Difference) {
    println!("\nESKER_SEED={seed} ESKER_CASES=1, command {}: {}", steps.len(), difference.what);
    show(difference);
    let look = match difference.what.as_str() {
        "elements" => Look::Elements,
        what if what.starts_with("state") || what.starts_with("expiry") || what == "keys" => Look::States,
        _ => Look::Nothing,
    };
    match shrink(pair, steps, keys, look) {
        Some((fewer, difference)) => {
            println!("  in short, {}:", difference.what);
            fewer.iter().rev().take(20).rev().for_each(|step| println!("    {}", line(step)));
            show(&difference);
        }
        None => println!("  does not happen again"),
    }
    let concerns = |step: &&Step| match step {
        Step::Command { args, .. } => written(args, 0).iter().any(|arg| keys.contains(arg)),
        _ => false,
    };
    println!("  the last commands on its keys:");
    let last: Vec<&Step> = steps.iter().rev().filter(concerns).take(20).collect();
    last.iter().rev().for_each(|step| println!("    {}", line(step)));
}

/// Shows the part where both begin to differ.
fn show(difference: &Difference) {
    let [redis, memory] =
        [&difference.redis, &difference.memory].map(|text| text.chars().collect::<Vec<char>>());
    let same = redis.iter().zip(&memory).take_while(|(one, other)| one == other).count();
    for (side, text) in [("Redis ", redis), ("Memory", memory)] {
        let begin = if text.len() < 200 { 0 } else { same.saturating_sub(80) };
        let part: String = text.iter().skip(begin).take(200).collect();
        println!("  {side} {}{part}", if begin > 0 { "... " } else { "" });
    }
}

/// A step as `redis-cli` would take it.
fn line(step: &Step) -> String {
    let Step::Command { args, resp3, .. } = step else { return format!("{step:?}") };
    let text = |arg: &Arg| {
        let bytes = written(std::slice::from_ref(arg), 0).concat();
        let is_word =
            !bytes.is_empty() && bytes.iter().all(|byte| byte.is_ascii_graphic() && !b"\"'\\".contains(byte));
        let text =
            if is_word { bytes.escape_ascii().to_string() } else { format!("\"{}\"", bytes.escape_ascii()) };
        if text.len() > 80 { format!("{}...({})", &text[..60], bytes.len()) } else { text }
    };
    let words: Vec<String> = args.iter().map(text).collect();
    let text = words.join(" ");
    let text = text.chars().take(400).collect::<String>();
    if *resp3 { format!("{text}    (RESP3)") } else { text }
}
