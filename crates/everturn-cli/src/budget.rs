//! A budget as it is written on the command line: LIMIT=N, parted by commas.

use everturn::budget::Budget;

const LIMITS: &str = "steps, calls, children, depth, input_tokens, output_tokens, wall_ms, cost";

/// Reads a budget.
///
/// Errors: which part is wrong, and what is right.
pub(crate) fn read(text: &str) -> Result<Budget, String> {
    let mut budget = Budget::default();
    for part in text.split(',') {
        let (name, value) =
            part.split_once('=').ok_or_else(|| format!("{part:?}: write LIMIT=N, as in steps=20"))?;
        let limit = match name.trim() {
            "steps" => &mut budget.steps,
            "calls" => &mut budget.calls,
            "children" => &mut budget.children,
            "depth" => &mut budget.depth,
            "input_tokens" => &mut budget.input_tokens,
            "output_tokens" => &mut budget.output_tokens,
            "wall_ms" => &mut budget.wall_ms,
            "cost" => {
                budget.cost = Some(dollars(value.trim())?);
                continue;
            }
            other => return Err(format!("there is no limit {other:?}; they are {LIMITS}")),
        };
        let number = value.trim().parse().map_err(|_| format!("{name}: {value:?} is no whole number"))?;
        *limit = Some(number);
    }
    Ok(budget)
}

/// Dollars as nano-dollars, to the digit.
fn dollars(text: &str) -> Result<u64, String> {
    let wrong = || format!("cost: {text:?} is no amount in dollars, as 0.5 is");
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || part.len() > 9 {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let part: u64 = format!("{part:0<9}").parse().map_err(|_| wrong())?;
    whole.checked_mul(1_000_000_000).and_then(|whole| whole.checked_add(part)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests;
