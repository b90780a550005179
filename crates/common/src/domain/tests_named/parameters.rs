//! How often parametrised tests of Python run, where the file spells their values.

/// In front of the arguments of a decorator that runs a test for each of its values.
const DECORATOR: &str = "@pytest.mark.parametrize(";

/// How many runs of tests a text adds by decorators, beyond one for each test; none where it makes values at run time, or
/// gives them to a class. Whether a line begins a test is asked of `is_test`.
pub(super) fn further_runs(text: &str, is_test: impl Fn(&str) -> bool) -> Option<usize> {
    let (mut more, mut factor, mut decorators, mut rest) = (0_usize, 1_usize, 0, text);
    while !rest.is_empty() {
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        let own = line.trim_start();
        let from_own = rest.trim_start_matches([' ', '\t']);
        if let Some(arguments) = from_own.strip_prefix(DECORATOR) {
            let (arguments, behind) = group(arguments)?;
            factor = factor.checked_mul(values(arguments.get(1)?)?)?;
            decorators += 1;
            rest = behind;
            continue;
        }
        // The arguments of another decorator may have several lines.
        let open = if own.starts_with('@') { own.find('(') } else { None };
        if let Some(open) = open {
            (_, rest) = group(from_own.get(open + 1..)?)?;
            continue;
        }
        if is_test(own) {
            more = more.checked_add(factor - 1)?;
            factor = 1;
        } else if factor > 1
            && ["async def ", "class ", "def "].iter().any(|it| own.starts_with(it))
        {
            return None;
        }
        rest = after;
    }
    (text.matches("parametrize").count() == decorators && factor == 1).then_some(more)
}

/// The number of values in a list or a tuple that spells each; none where that is not known, or where there are none.
fn values(argument: &str) -> Option<usize> {
    let text = argument.trim();
    let is_tuple = text.starts_with('(');
    let (parts, behind) = group(text.strip_prefix(['[', '('])?)?;
    let is_made = |part: &&str| {
        part.trim_start().starts_with('*') || part.split_whitespace().any(|word| word == "for")
    };
    let spelled = !parts.iter().any(is_made) && is_blank(behind) && !(is_tuple && parts.len() == 1);
    let count = parts.iter().filter(|part| !is_blank(part)).count();
    (spelled && count > 0).then_some(count)
}

/// Whether a text has comments alone.
fn is_blank(text: &str) -> bool {
    text.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#'))
}

/// What stands between an opening bracket and its end, by the commas of its own level, and what follows.
fn group(text: &str) -> Option<(Vec<&str>, &str)> {
    let (mut parts, mut from, mut depth, mut at) = (Vec::new(), 0, 0_usize, 0);
    while let Some(byte) = text.as_bytes().get(at) {
        match byte {
            b'#' => at += text.get(at..)?.find('\n')?,
            b'"' | b'\'' => at += string(text.get(at..)?)? - 1,
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' if depth == 0 => {
                parts.push(text.get(from..at)?);
                return Some((parts, text.get(at + 1..)?));
            }
            b')' | b']' | b'}' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(text.get(from..at)?);
                from = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// The length of the string that begins here, with its quotes.
fn string(text: &str) -> Option<usize> {
    let one = text.get(..1)?;
    let three = one.repeat(3);
    let end = if text.starts_with(&three) { three.as_str() } else { one };
    let mut at = end.len();
    loop {
        let rest = text.get(at..)?;
        if rest.starts_with(end) {
            return Some(at + end.len());
        }
        let mut letters = rest.chars();
        at += match letters.next()? {
            '\\' => 1 + letters.next()?.len_utf8(),
            '\n' if end.len() == 1 => return None,
            letter => letter.len_utf8(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runs_of_parametrised_tests_are_counted_where_their_values_are_spelled() {
        let marked = |arguments: &str| format!("@pytest.mark.parametrize({arguments})\n");
        let below = |arguments: &str| marked(arguments) + "def test_a(x):\n    pass\n";
        for (text, expected) in [
            ("def test_a():\n    pass\n".to_owned(), Some(0)),
            (below("'x', [1, 2, 3]"), Some(2)),
            (
                below(
                    "'x, y', [\n    (1, ')'),  # a, b\n    (2, \"\\\"]\"),\n    # (3, 4),\n], ids=str",
                ),
                Some(1),
            ),
            (below("'x', ('a', '''b,\nc''')"), Some(1)),
            (below("'x', ('a')"), None),
            (below("'x', [f(y) for y in z]"), None),
            (below("'x', [1, *more]"), None),
            (below("'x', VALUES"), None),
            (below("'x', [1] * 3"), None),
            (below("'x', []"), None),
            (below("argnames='x', argvalues=[1]"), None),
            (below("'x', [1, 2"), None),
            (
                marked("'x', [1, 2]") + "@other(\n    ')', 1,\n)\n" + &below("'y', [1, 2, 3]"),
                Some(5),
            ),
            (
                marked("'x', [1, 2]") + "async def test_b(x):\n    pass\n" + &below("'y', [1]"),
                Some(1),
            ),
            (marked("'x', [1, 2]") + "class TestA:\n    def test_a(self, x): pass\n", None),
            (
                "pytestmark = pytest.mark.parametrize('x', [1, 2])\ndef test_a(x): pass\n"
                    .to_owned(),
                None,
            ),
        ] {
            let is_test = |line: &str| line.contains("def test");
            assert_eq!(further_runs(&text, is_test), expected, "{text}");
        }
    }
}
