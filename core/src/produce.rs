//! PUSH, MPUSH, CREATE, ALTER.

use crate::effects::Run;
use crate::id::IdText;
use crate::op::Op;
use crate::policy::Setting;
use crate::request::JobOptions;
use crate::sink::Sink;

impl Run<'_, '_> {
    pub(crate) fn push(&mut self, payloads: &[&[u8]], many: bool, options: &JobOptions, out: &mut dyn Sink) {
        let now = self.now();
        let at = options.when.at(now);
        let due = (at > now).then_some(at);
        if many {
            out.array(payloads.len());
        }
        let mut text = IdText::new();
        for payload in payloads {
            let id = self.queue.head.last_id.next(now);
            self.commit(&Op::Push { id, due, options: *options, payload });
            out.bulk(id.write(&mut text));
        }
    }

    /// Sets the options that differ from what they are.
    pub(crate) fn set_policy(&mut self, settings: &[Setting]) {
        for setting in settings {
            if !self.queue.head.policy.has(setting) {
                self.commit(&Op::Policy(*setting));
            }
        }
    }
}
