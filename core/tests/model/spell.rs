//! How a client spells the operations.

use super::op::{id_text, Dedup, IdPick, JobOptions, LeaseOptions, Op, PairPick, Plan, Rule, Setting, Side, When};

impl Op {
    /// The arguments after the key. `style` decides the order of the options and the case of
    /// their names, which must not matter.
    pub fn spell(&self, style: u32) -> Words {
        let mut words = Words { style, ..Words::default() };
        match self {
            Op::Push { payload, options, dedup } => {
                words.word(payload);
                words.job_options(options);
                words.dedup("DEDUP", dedup.as_ref());
            }
            Op::MPush { payloads, options, dedup } => {
                words.word(payloads.len().to_string().as_bytes());
                payloads.iter().for_each(|payload| words.word(payload));
                words.job_options(options);
                words.dedup("DEDUPS", dedup.as_ref());
            }
            Op::GetDedup { key } => {
                words.word(&words.keyword("DEDUP"));
                words.word(key);
            }
            Op::DelDedup { keys } => {
                words.word(&words.keyword("DEDUP"));
                keys.iter().for_each(|key| words.word(key));
            }
            Op::Lease { consumer, options } => {
                words.word(consumer);
                words.lease_options(options);
            }
            Op::Ack { pairs, result } => {
                words.pairs(pairs);
                words.value("RESULT", result.as_deref());
            }
            Op::AckLease { pair, consumer, options } => {
                words.pairs(std::slice::from_ref(pair));
                words.word(consumer);
                words.lease_options(options);
            }
            Op::Nack { pairs, delay, error, dead } => {
                words.pairs(pairs);
                words.number("DELAY", *delay);
                words.value("ERROR", error.as_deref());
                words.flag("DEAD", *dead);
            }
            Op::Release { pairs, delay } => {
                words.pairs(pairs);
                words.number("DELAY", *delay);
            }
            Op::ReleaseConsumer { consumer } => words.value("CONSUMER", Some(consumer)),
            Op::Extend { pairs, lease } => {
                words.pairs(pairs);
                words.number("LEASE", *lease);
            }
            Op::Reap { count } => words.number("COUNT", *count),
            Op::ReapConsumer { consumer, count } => {
                words.value("CONSUMER", Some(consumer));
                words.number("COUNT", *count);
            }
            Op::ReapIds { ids } => {
                words.word(&words.keyword("ID"));
                words.ids(ids);
            }
            Op::Redrive { ids } | Op::Del { ids } => words.ids(ids),
            Op::RedriveMany(many) => {
                words.number("COUNT", Some(many.count));
                words.value("REASON", many.reason.map(str::as_bytes));
                words.number("AFTER", many.after.map(|m| m.at));
                words.number("BEFORE", many.before.map(|m| m.at));
                words.number("SPREAD", many.spread);
                words.number("PRIORITY", many.priority);
            }
            Op::Set { id, priority, when } => {
                words.word(&id_text(id.id));
                words.number("PRIORITY", *priority);
                words.when(*when);
            }
            Op::Purge { state, count, reason, before } => {
                words.word(&words.keyword(state.name()));
                words.number("COUNT", *count);
                words.value("REASON", reason.map(str::as_bytes));
                words.number("BEFORE", before.map(|m| m.at));
            }
            Op::Trim { by, bound, count } => {
                words.number(by, Some(*bound));
                words.number("COUNT", *count);
            }
            Op::Pause { side, for_ms, reason } => {
                words.side(side);
                words.number("FOR", *for_ms);
                words.value("REASON", reason.as_deref());
            }
            Op::Resume { side } => words.side(side),
            Op::Schedule { name, plan, .. } => {
                words.word(name);
                words.plan(plan);
            }
            Op::Unschedule { names } => names.iter().for_each(|name| words.word(name)),
            Op::Groups { after, count } | Op::Consumers { after, count } => {
                words.value("AFTER", after.as_deref());
                words.number("COUNT", *count);
            }
            Op::Get { id } => words.word(&id_text(id.id)),
            Op::Wait { id, block } => {
                words.word(&id_text(id.id));
                words.number("BLOCK", *block);
            }
            Op::Peek { state, count, payload } => {
                words.word(&words.keyword(state.name()));
                words.number("COUNT", *count);
                words.flag("NOPAYLOAD", !payload);
            }
            Op::Len { state } => state.iter().for_each(|state| words.word(&words.keyword(state.name()))),
            Op::Info { json } => words.flag("JSON", *json),
            Op::Schedules => {}
            Op::Create { settings } | Op::Alter { settings } => words.settings(settings),
        }
        words
    }
}

/// Arguments in the making: what must come first, and the options.
#[derive(Debug, Clone, Default)]
pub struct Words {
    style: u32,
    pub fixed: Vec<Vec<u8>>,
    /// Each with its values.
    pub options: Vec<Vec<Vec<u8>>>,
}

impl Words {
    /// All of it, the options in an order that the style decides.
    pub fn all(&self) -> Vec<Vec<u8>> {
        let mut options = self.options.clone();
        if !options.is_empty() {
            let by = self.style as usize % options.len();
            options.rotate_left(by);
        }
        self.fixed.iter().cloned().chain(options.into_iter().flatten()).collect()
    }

    fn keyword(&self, name: &str) -> Vec<u8> {
        match self.style % 3 {
            0 => name.to_ascii_lowercase(),
            1 => name.to_ascii_uppercase(),
            _ => name.char_indices().map(|(n, c)| if n % 2 == 0 { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }).collect(),
        }
        .into_bytes()
    }

    fn word(&mut self, word: &[u8]) {
        self.fixed.push(word.to_vec());
    }

    fn ids(&mut self, ids: &[IdPick]) {
        ids.iter().for_each(|pick| self.word(&id_text(pick.id)));
    }

    fn pairs(&mut self, pairs: &[PairPick]) {
        for pair in pairs {
            self.word(&id_text(pair.id));
            self.word(pair.token.to_string().as_bytes());
        }
    }

    fn flag(&mut self, name: &str, given: bool) {
        if given {
            self.options.push(vec![self.keyword(name)]);
        }
    }

    fn value(&mut self, name: &str, value: Option<&[u8]>) {
        if let Some(value) = value {
            self.options.push(vec![self.keyword(name), value.to_vec()]);
        }
    }

    fn number(&mut self, name: &str, value: Option<impl ToString>) {
        self.value(name, value.map(|n| n.to_string().into_bytes()).as_deref());
    }

    fn when(&mut self, when: Option<When>) {
        match when {
            Some(When::Delay(ms)) => self.number("DELAY", Some(ms)),
            Some(When::At(moment)) => self.number("AT", Some(moment.at)),
            None => {}
        }
    }

    fn job_options(&mut self, options: &JobOptions) {
        self.when(options.when);
        self.number("PRIORITY", options.priority);
        self.number("LEASE", options.lease);
        self.number("MAXDELIVERIES", options.max_deliveries);
        self.number("TTL", options.ttl);
        self.value("GROUP", options.group.as_deref());
    }

    /// OUT is what is meant if nothing is said, and what a group's pause is anyway.
    fn side(&mut self, side: &Side) {
        self.flag("IN", *side == Side::In);
        self.flag("OUT", *side != Side::In && self.style % 2 == 0);
        if let Side::Group(name) = side {
            self.value("GROUP", Some(name));
        }
    }

    fn plan(&mut self, plan: &Plan) {
        match plan.rule {
            Rule::Every(ms) => self.number("EVERY", Some(ms)),
            Rule::Cron(ms, zone) => {
                self.number("CRON", Some(ms));
                self.value("TZ", zone.map(str::as_bytes));
            }
        }
        self.number("START", plan.start.map(|m| m.at));
        self.number("END", plan.end.map(|m| m.at));
        self.number("LIMIT", plan.limit);
        self.value("MISSED", plan.missed.map(|missed| missed.name().as_bytes()));
        self.value("PAYLOAD", Some(&plan.payload));
        self.job_options(&plan.options);
        self.value("DEDUP", plan.dedup.as_deref());
    }

    fn dedup(&mut self, name: &str, dedup: Option<&Dedup>) {
        let Some(dedup) = dedup else { return };
        self.options.push([vec![self.keyword(name)], dedup.keys.clone()].concat());
        self.number("WINDOW", dedup.window);
        self.flag("REPLACE", dedup.replace);
        self.number("MAXWAIT", dedup.max_wait);
        self.flag("KEEPLAST", dedup.keep_last);
    }

    fn lease_options(&mut self, options: &LeaseOptions) {
        self.number("COUNT", options.count);
        self.number("LEASE", options.lease);
        self.number("BLOCK", options.block);
        self.number("MAXBYTES", options.max_bytes);
        self.flag("META", options.meta);
    }

    fn settings(&mut self, settings: &[Setting]) {
        for setting in settings {
            match setting {
                Setting::Lease(ms) => self.number("LEASE", Some(ms)),
                Setting::MaxRun(ms) => self.number("MAXRUN", Some(ms)),
                Setting::MaxDeliveries(n) => self.number("MAXDELIVERIES", Some(n)),
                Setting::MaxExpiries(n) => self.number("MAXEXPIRIES", Some(n)),
                Setting::Backoff(base, max) => self.options.push(vec![
                    self.keyword("BACKOFF"),
                    base.to_string().into_bytes(),
                    max.to_string().into_bytes(),
                ]),
                Setting::Jitter(jitter) => self.value("JITTER", Some(jitter.name().as_bytes())),
                Setting::Bound(name, None) => self.value(name, Some(b"-1")),
                Setting::Bound(name, bound) => self.number(name, *bound),
                Setting::Rate(None) | Setting::GroupRate(None) => self.value(setting.name(), Some(b"-1")),
                Setting::Rate(Some((n, ms))) | Setting::GroupRate(Some((n, ms))) => self.options.push(vec![
                    self.keyword(setting.name()),
                    n.to_string().into_bytes(),
                    ms.to_string().into_bytes(),
                ]),
                Setting::ExpiryBackoff(yes) | Setting::GroupOrder(yes) => {
                    self.value(setting.name(), Some(if *yes { b"yes" } else { b"no" }));
                }
                Setting::Aging(ms) => self.number("AGING", Some(ms)),
            }
        }
    }
}
