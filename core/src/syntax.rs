//! Makes sense of the `syntax` of the command table, for `COMMAND DOCS` and the reference.
//!
//! The notation: capitals are a keyword, and what follows it up to the next keyword or bracket
//! is its value. `[ ]` is optional. `[a b ...]` after `a b` says that the two repeat. `|` parts
//! the words or keywords beside it, except that `| key` begins another form of the whole.

/// One argument, or a group of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arg {
    /// A name for people.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// The keyword before it, if it has one.
    pub keyword: Option<String>,
    /// It may be left out.
    pub optional: bool,
    /// It may be repeated.
    pub multiple: bool,
}

/// What an argument is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// The key.
    Key,
    /// Text or bytes.
    String,
    /// A whole number.
    Integer,
    /// A point in time.
    UnixTime,
    /// A word to be spelled as it stands.
    Word,
    /// One of these.
    OneOf(Vec<Arg>),
    /// All of these, in order.
    Block(Vec<Arg>),
}

/// Reads the syntax of one command.
///
/// # Errors
/// Says what is wrong with it.
pub fn parse(syntax: &str) -> Result<Vec<Arg>, String> {
    let spaced = syntax.replace('[', " [ ").replace(']', " ] ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut forms = Vec::new();
    for form in split_forms(&words) {
        let mut reader = Reader { words: form, at: 0 };
        let args = reader.sequence()?;
        if reader.peek().is_some() {
            return Err(format!("a bracket too many in {syntax:?}"));
        }
        forms.push(args);
    }
    join_forms(forms).ok_or_else(|| format!("the forms of {syntax:?} begin differently"))
}

/// Cuts the words at every `| key`.
fn split_forms<'w, 's>(words: &'w [&'s str]) -> Vec<&'w [&'s str]> {
    let mut forms = Vec::new();
    let mut rest = words;
    while let Some(at) = rest.windows(2).position(|pair| pair == ["|", "key"]) {
        let (form, tail) = rest.split_at(at);
        forms.push(form);
        rest = tail.get(1..).unwrap_or(&[]);
    }
    forms.push(rest);
    forms
}

/// `key a | key b` is `key` and one of `a`, `b`.
fn join_forms(mut forms: Vec<Vec<Arg>>) -> Option<Vec<Arg>> {
    if forms.len() == 1 {
        return forms.pop();
    }
    let key = forms.first()?.first()?.clone();
    let mut choices = Vec::new();
    for mut form in forms {
        if form.first() != Some(&key) || form.len() < 2 {
            return None;
        }
        form.remove(0);
        choices.push(block(form));
    }
    Some(vec![key, group(Kind::OneOf(choices))])
}

struct Reader<'w, 's> {
    words: &'w [&'s str],
    at: usize,
}

impl<'s> Reader<'_, 's> {
    fn peek(&self) -> Option<&'s str> {
        self.words.get(self.at).copied()
    }

    fn next(&mut self) -> Option<&'s str> {
        let word = self.peek()?;
        self.at = self.at.saturating_add(1);
        Some(word)
    }

    /// Everything up to the end or a closing bracket.
    fn sequence(&mut self) -> Result<Vec<Arg>, String> {
        let mut args: Vec<Arg> = Vec::new();
        while let Some(word) = self.peek() {
            match word {
                "]" => break,
                "|" => {
                    self.next();
                    let before = args.pop().ok_or("nothing before |")?;
                    let after = self.unit()?;
                    args.push(either(before, after));
                }
                "[" => {
                    self.next();
                    let inner = self.sequence()?;
                    if self.next() != Some("]") {
                        return Err("a bracket is not closed".into());
                    }
                    bracket(&mut args, inner)?;
                }
                _ => args.push(self.unit()?),
            }
        }
        Ok(args)
    }

    /// A word, or a keyword with its values.
    fn unit(&mut self) -> Result<Arg, String> {
        let word = self.next().ok_or("nothing after |")?;
        if matches!(word, "|" | "[" | "]") {
            return Err(format!("a word is missing before {word}"));
        }
        if !is_keyword(word) {
            return Ok(value(word));
        }
        let mut values: Vec<Arg> = Vec::new();
        loop {
            let next = self.words.get(self.at..).unwrap_or(&[]);
            match *next {
                ["|", word, ..] if !is_keyword(word) => {
                    self.next();
                    self.next();
                    let before = values.pop().ok_or("nothing before |")?;
                    values.push(either(literal(before), literal(value(word))));
                }
                ["[", word, ..] if !is_keyword(word) => {
                    self.next();
                    let inner = self.sequence()?;
                    if self.next() != Some("]") {
                        return Err("a bracket is not closed".into());
                    }
                    bracket(&mut values, inner)?;
                }
                [word, ..] if !is_keyword(word) && !matches!(word, "|" | "[" | "]") => {
                    self.next();
                    values.push(value(word));
                }
                _ => break,
            }
        }
        Ok(keyword(word, values))
    }
}

/// Adds what stood in brackets: the repetition of what is before it, or something optional.
fn bracket(args: &mut Vec<Arg>, mut inner: Vec<Arg>) -> Result<(), String> {
    if inner.last().is_some_and(|last| last.name == "...") {
        inner.pop();
        let from = args.len().checked_sub(inner.len()).ok_or("nothing before [ ... ]")?;
        let repeated = args.split_off(from);
        if repeated != inner || repeated.is_empty() {
            return Err("[ ... ] does not repeat what is before it".into());
        }
        args.push(Arg { multiple: true, ..block(repeated) });
    } else {
        if inner.is_empty() {
            return Err("empty brackets".into());
        }
        args.push(Arg { optional: true, ..block(inner) });
    }
    Ok(())
}

fn is_keyword(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_uppercase())
}

fn value(word: &str) -> Arg {
    let kind = match word {
        "key" | "stream" => Kind::Key,
        "unix-ms" => Kind::UnixTime,
        "ms" | "n" | "token" | "base" | "max" | "count" | "numkeys" => Kind::Integer,
        _ => Kind::String,
    };
    Arg { name: word.into(), kind, keyword: None, optional: false, multiple: false }
}

/// A lower case word beside `|` stands for itself.
fn literal(mut arg: Arg) -> Arg {
    match &mut arg.kind {
        Kind::OneOf(_) => {}
        kind => {
            *kind = Kind::Word;
            arg.keyword = Some(arg.name.clone());
        }
    }
    arg
}

fn keyword(word: &str, mut values: Vec<Arg>) -> Arg {
    let name = word.to_ascii_lowercase();
    let spelled = Some(word.to_string());
    match values.len() {
        0 => Arg { name, kind: Kind::Word, keyword: spelled, optional: false, multiple: false },
        1 => {
            let value = values.remove(0);
            let name = if matches!(value.kind, Kind::OneOf(_)) { name } else { value.name.clone() };
            Arg { name, keyword: spelled, ..value }
        }
        _ => Arg { name, keyword: spelled, ..group(Kind::Block(values)) },
    }
}

fn either(before: Arg, after: Arg) -> Arg {
    match before {
        Arg { kind: Kind::OneOf(mut choices), keyword: None, .. } => {
            choices.push(after);
            group(Kind::OneOf(choices))
        }
        before => group(Kind::OneOf(vec![before, after])),
    }
}

/// Several arguments as one; a single one stays as it is.
fn block(mut args: Vec<Arg>) -> Arg {
    match (args.len(), args.pop()) {
        (1, Some(only)) => only,
        (_, last) => {
            args.extend(last);
            group(Kind::Block(args))
        }
    }
}

fn group(kind: Kind) -> Arg {
    let (Kind::OneOf(args) | Kind::Block(args)) = &kind else {
        return Arg { name: String::new(), kind, keyword: None, optional: false, multiple: false };
    };
    let joint = if matches!(kind, Kind::OneOf(_)) { "-or-" } else { "-" };
    let names: Vec<&str> = args.iter().map(|arg| arg.keyword.as_deref().unwrap_or(&arg.name)).collect();
    let name = names.join(joint).to_ascii_lowercase();
    Arg { name, kind, keyword: None, optional: false, multiple: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Keys, COMMANDS};

    /// The notation again, with values named by their kind, to check the tree by eye.
    fn show(args: &[Arg]) -> String {
        args.iter().map(show_one).collect::<Vec<_>>().join(" ")
    }

    fn show_one(arg: &Arg) -> String {
        let inner = match &arg.kind {
            Kind::Word => String::new(),
            Kind::OneOf(args) => format!("({})", args.iter().map(show_one).collect::<Vec<_>>().join("|")),
            Kind::Block(args) => format!("{{{}}}", show(args)),
            kind => format!("{}:{kind:?}", arg.name),
        };
        let keyword = arg.keyword.as_deref().unwrap_or("");
        let space = if keyword.is_empty() || inner.is_empty() { "" } else { " " };
        let more = if arg.multiple { "+" } else { "" };
        let optional = if arg.optional { "?" } else { "" };
        format!("{keyword}{space}{inner}{more}{optional}")
    }

    #[test]
    fn the_tree_is_what_was_meant() {
        for (syntax, tree) in [
            ("key payload [DELAY ms | AT unix-ms] [PRIORITY n]",
             "key:Key payload:String (DELAY ms:Integer|AT unix-ms:UnixTime)? PRIORITY n:Integer?"),
            ("key n payload [payload ...] [TTL ms]",
             "key:Key n:Integer payload:String+ TTL ms:Integer?"),
            ("key id token [id token ...] [ERROR text] [DEAD]",
             "key:Key {id:String token:Integer}+ ERROR text:String? DEAD?"),
            ("key id token [id token ...] [DELAY ms] | key CONSUMER consumer",
             "key:Key ({{id:String token:Integer}+ DELAY ms:Integer?}|CONSUMER consumer:String)"),
            ("key [COUNT n] [CONSUMER consumer | ID id [id ...]]",
             "key:Key COUNT n:Integer? (CONSUMER consumer:String|ID id:String+)?"),
            ("key READY | DELAYED | DONE [COUNT n]",
             "key:Key (READY|DELAYED|DONE) COUNT n:Integer?"),
            ("key [BACKOFF base max] [JITTER full | equal | none]",
             "key:Key BACKOFF {base:Integer max:Integer}? JITTER (full|equal|none)?"),
            ("key [READY | DEAD]", "key:Key (READY|DEAD)?"),
        ] {
            assert_eq!(show(&parse(syntax).unwrap()), tree, "{syntax}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for syntax in ["key [", "key ]", "key | | x", "| key", "key a [b ...]", "[a ...]", "key []", "x a | key b"] {
            assert!(parse(syntax).is_err(), "{syntax}");
        }
    }

    #[test]
    fn every_command_has_a_tree_that_begins_with_its_key() {
        for command in COMMANDS {
            let args = parse(command.syntax).unwrap_or_else(|why| panic!("{}: {why}", command.name));
            let kinds: Vec<&Kind> = args.iter().take(2).map(|arg| &arg.kind).collect();
            let begins = match command.verb.keys() {
                Keys::First => kinds.first() == Some(&&Kind::Key),
                Keys::Numbered => kinds == [&Kind::Integer, &Kind::Key],
                Keys::After(word) => args.first().is_some_and(|arg| arg.keyword.as_deref() == Some(word) && arg.kind == Kind::Key),
                Keys::None => !kinds.contains(&&Kind::Key),
            };
            assert!(begins, "{}", command.name);
            let needed = args.iter().filter(|arg| !arg.optional).count();
            assert!(needed < command.arity.unsigned_abs() as usize, "{}", command.name);
        }
    }
}
