//! Producers and the replacer.

use super::*;

impl<F: Family> Round<F> {
    /// Decides the first sync: each key is touched by it.
    pub(crate) fn first_list(&self) {
        let list = (0..self.keys.len() as u32).map(|key| (key, self.make(FIRST, Made::Item)));
        self.queue.replace(list).unwrap();
        count(&self.offered, self.keys.len() as u64);
    }

    fn key(&self, random: &mut Random) -> u32 {
        random.below(self.keys.len() as u64) as u32
    }

    pub(crate) fn produce(&self, producer: usize) {
        let mut random = Random::new(self.seed + producer as u64);
        for _ in 0..OPS {
            self.change(producer, &mut random);
            if random.one_in(20) {
                count(&self.synced, u64::from(self.queue.resync_key(self.key(&mut random)).unwrap()));
            }
            if random.one_in(30) {
                std::thread::yield_now();
            }
        }
    }

    /// One change of one key.
    pub(crate) fn change(&self, maker: usize, random: &mut Random) {
        let key = self.key(random);
        let deletes = self.mode != Mode::Latest;
        match random.below(10) {
            0 if deletes => self.queue.delete(key, self.make(maker, Made::Change)).unwrap(),
            1 if deletes => self.queue.delete_key(key).unwrap(),
            2..5 => {
                self.queue.add(key, self.make(maker, Made::Change)).unwrap();
                count(&self.offered, 1);
            }
            5..7 => {
                self.queue.update(key, self.make(maker, Made::Change)).unwrap();
                count(&self.offered, 1);
            }
            _ => {
                self.queue.apply(key, self.make(maker, Made::Apply)).unwrap();
                count(&self.offered, 1);
            }
        }
    }

    pub(crate) fn replace(&self) {
        let mut random = Random::new(self.seed + 77);
        for _ in 0..OPS / 10 {
            match random.below(4) {
                0 => count(&self.synced, self.queue.resync().unwrap() as u64),
                1 if self.mode != Mode::Latest => self.replace_list(&mut random),
                _ => self.stream(&mut random),
            }
            std::thread::yield_now();
        }
    }

    fn replace_list(&self, random: &mut Random) {
        let list: Vec<(u32, Object)> = (0..self.keys.len() as u32)
            .filter(|_| !random.one_in(4))
            .map(|key| (key, self.make(REPLACER, Made::Listed)))
            .collect();
        count(&self.listed, list.len() as u64);
        self.queue.replace(list).unwrap();
    }

    fn stream(&self, random: &mut Random) {
        let replace = self.queue.begin_replace().unwrap();
        let began = self.now();
        assert!(self.queue.begin_replace().is_err(), "two replaces at a time");
        for key in 0..self.keys.len() as u32 {
            // Without deletions every key is in the list, so that nothing is swept.
            if self.mode == Mode::Latest || !random.one_in(4) {
                match replace.upsert(key, self.make_at(REPLACER, Made::Item, began)).unwrap() {
                    Upsert::Placed => count(&self.offered, 1),
                    Upsert::Superseded => {}
                }
            }
            if random.one_in(20) {
                std::thread::yield_now();
            }
        }
        if random.one_in(3) {
            drop(replace);
        } else {
            replace.commit().unwrap();
        }
    }
}
