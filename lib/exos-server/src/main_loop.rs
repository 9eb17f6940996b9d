//! The environment that the server runs in: made by the session, entered by control transfer, one call at a time.

use super::credentials::ROOT_RESERVE;
use super::dispatch::{Client, FileServer};
use super::identity_tokens::TokenTable;
use super::machine::name_machine;
use super::pages::orphaned_pages::HandedOffPages;
use super::principals::{self, Principals};
use super::programs::setuid_exec::PendingExecs;
use super::sysv_ipc::Ipc;
use abi::budget::Resource;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use exos::budget::spare_of;
use exos::hw::current::service_state;
use exos::hw::mapping::{Mapping, Mappings};
use exos::hw::page_quota::PageQuota;
use exos::hw::page_store::PageStore;
use exos::hw::{card, disk, entropy};
use linux_abi::errno::{Errno, Result};
use runtime::lock::Lock;
use runtime::page::Allocator;
use runtime::transfer::Message;
use runtime::{EnvironmentId, KeyIndex, PageNumber, area, clock, exposed, time_slice};
use unix_core::ipc::shared_futex::SharedFutexes;
use unix_core::process::credentials::Credentials;
use unix_core::server::condemned::Condemned;
use unix_core::server::protocol::{self, Request, SAME_FOR_ALL, WINDOW_BYTES, WINDOW_PAGES};
use vfs::cpu_cache::caches;
use vfs::dcache::{self, Changes};
use vfs::file_lock::{Locks, Owner};
use vfs::handle::Handle;
use vfs::id_map::NumberMap;
use vfs::mount_table::Location;
use vfs::namespace::{FileTree, ROOT};
use vfs::sysfs::Disk;

/// All that the server keeps.
#[derive(Debug)]
pub struct Server {
    pub server: FileServer,
    /// Clients that other environments speak for, by the number of those.
    pub(super) threads: NumberMap<u64>,
    /// Credentials of threads that differ from those of their process's first thread.
    pub(super) apart: NumberMap<Credentials>,
    /// Windows of clients that died, for those that come.
    spare: Vec<Mapping>,
    /// The environment that holds the unused budget, and the part of it for user 0 alone.
    pub(super) bank: EnvironmentId,
    pub(super) kept_for_zero: [u64; Resource::COUNT],
    /// The process that is reowning pages, and until when no other does, in nanoseconds since boot.
    pub(super) taking_over: Option<(u64, u64)>,
    /// What the session tells everybody.
    pub board: &'static [AtomicU64],
    /// Processes that are to go on in fresh environments.
    pub pending_execs: PendingExecs,
    /// Processes that were sent SIGKILL.
    pub condemned: Condemned,
    /// What it says of clients to others.
    pub(super) tokens: TokenTable,
    /// What the dead have left to others.
    pub(super) handed_off: HandedOffPages,
    /// Threads that wait for words of shared memory.
    pub(super) futexes: SharedFutexes,
}

/// Windows of dead clients that are kept at most, the latest.
const SPARE: usize = 4;

impl Server {
    /// One with the files of the boot archive. `file_pages` are readable by user 0, `common_pages` by the session.
    pub fn new(
        archive: &'static [u8],
        file_pages: Allocator,
        common_pages: Allocator,
        keys: Principals,
        board: &'static [AtomicU64],
    ) -> core::result::Result<Self, String> {
        let mut tree = FileTree::new(PageStore::new(file_pages, archive), seed());
        tree.now = now();
        tree.populate(archive, abi::boot::ROOT)?;
        let cpus = exposed::kernel().cpus.load(Acquire);
        let card = card::find();
        tree.mount_machine(cpus, &caches(cpus), &disks(), card).map_err(|_| String::from("/sys cannot be made"))?;
        if card.is_some() {
            // A root without /etc asks for no names.
            let _ = tree.offer_name_servers();
        }
        let mut windows = Mappings::of_server();
        let notice =
            open_notice(&mut windows, common_pages).map_err(|_| String::from("there is no page for notices"))?;
        name_machine(&notice);
        let no_pages = |_| String::from("there are no pages for names");
        let catalogue = open_catalogue(&mut windows, common_pages).map_err(no_pages)?;
        tree.changes = Changes::default();
        let server = FileServer {
            tree,
            clients: NumberMap::default(),
            locks: Locks::default(),
            fifos: BTreeMap::new(),
            offered: BTreeMap::new(),
            sockets: BTreeMap::new(),
            abstract_names: BTreeMap::new(),
            socket_paths: BTreeMap::new(),
            terminals: Vec::new(),
            ipc: Ipc::default(),
            internet: None,
            wire: Default::default(),
            raw: None,
            keeper: Default::default(),
            requests: Default::default(),
            keys,
            notice,
            dcache: catalogue,
            mappings: windows,
        };
        let (threads, spare, wishes) = (NumberMap::default(), Vec::new(), PendingExecs::default());
        let (vouchers, bequests, futexes) =
            (TokenTable::default(), HandedOffPages::default(), SharedFutexes::default());
        let (bank, kept_for_zero) = (EnvironmentId::NONE, [0; Resource::COUNT]);
        Ok(Self {
            server,
            threads,
            apart: NumberMap::default(),
            spare,
            bank,
            kept_for_zero,
            taking_over: None,
            board,
            pending_execs: wishes,
            condemned: Condemned::default(),
            tokens: vouchers,
            handed_off: bequests,
            futexes,
        })
    }

    /// From here on there is a bank; the server keeps a reserve of so many pages.
    pub fn open_bank(&mut self, bank: EnvironmentId, server: EnvironmentId, reserve: u64) {
        self.bank = bank;
        self.kept_for_zero = Resource::ALL.map(|resource| spare_of(bank, resource) / ROOT_RESERVE);
        self.server.tree.store.quota = PageQuota::new(bank, server, spare_of(bank, Resource::Page), reserve);
    }

    /// The words of the notice page.
    pub fn notice_words(&self) -> &'static [AtomicU64] {
        self.server.notice.words()
    }

    /// What every process maps at `layout::SHOWN`.
    pub fn shown(&self) -> Vec<PageNumber> {
        [&self.server.notice, &self.server.dcache].into_iter().flat_map(Mapping::pages).copied().collect()
    }

    fn serve(&mut self, environment: u64, message: &mut Message) {
        let caller = self.threads.get(&environment).copied().unwrap_or(environment);
        if Request::is_of_futexes(message[0]) {
            // This changes nothing that watchers are told of.
            self.answer(EnvironmentId(environment), caller, message);
            return;
        }
        self.server.tree.now = self.server.file_time(now());
        if Request::allocates(message[0]) && !self.server.tree.store.quota.refill() {
            message[0] = u64::from(Errno::ENOMEM.number());
            return;
        }
        if message[0] == Request::Write as u64
            && let Some(answer) = self.server.write_shortly(caller, *message)
        {
            *message = answer;
            return;
        }
        self.answer_as_thread(EnvironmentId(environment), caller, message);
        if message[0] == u64::from(Errno::NOT_LOADED.number()) && !self.server.wait_for_wire(message) {
            self.server.ask_for_missing(message);
        }
        self.server.revoke_where_narrowed();
        self.server.hide_changes();
        self.server.reclaim_idle_handles();
        if self.server.tree.watches.take_news() {
            self.server.tell_of_change();
        }
    }

    pub(super) fn answer(&mut self, environment: EnvironmentId, caller: u64, message: &mut Message) {
        let outcome = match Request::from_number(message[0]) {
            Some(Request::Attach) => self.attach(caller, PageNumber::NONE, message),
            Some(Request::Adopt) => self.adopt(environment, caller, message),
            Some(Request::RegisterThread) => self.join(environment, caller, message[1]),
            Some(Request::SetIdentity) if message[1] == SAME_FOR_ALL => self.give_to_all(caller, message[2]),
            Some(Request::SetIdentity) => self.set_identity(caller, message),
            Some(Request::ListsForUser) => self.admit(caller, message),
            Some(Request::Reowning) => self.note_taking_over(caller, message),
            Some(Request::SetPriority) => self.precede(caller, message),
            Some(Request::DrawBudget) => self.draw(environment, message),
            Some(Request::Signal) => self.signal(caller, message),
            Some(Request::Submit) => self.ask(caller, message),
            Some(Request::NotifyParent) => self.tell_parent(caller, message),
            Some(Request::ExecAs) => self.succeed(caller, message),
            Some(Request::SuccessorOf) => self.successor(caller, message),
            Some(Request::AssumeIdentity) => self.raise(caller, message),
            Some(Request::IssueToken) => self.vouch(caller, message),
            Some(Request::RedeemToken) => self.redeem(caller, message),
            Some(Request::StorePending) => self.leave_behind(caller, message),
            Some(Request::TakePending) => self.take_left(caller, message),
            Some(
                operation @ (Request::FutexEnter
                | Request::FutexWaits
                | Request::FutexLeave
                | Request::FutexWake
                | Request::FutexRequeue),
            ) => self.futex((environment, caller), operation, message),
            Some(Request::ShareHandedOff) => self.share_bequests(caller, message),
            Some(Request::HandOff) => self.bequeath(caller, message),
            Some(Request::Execute) => self.execute(caller, message),
            Some(Request::ReapClients) => {
                self.bury_the_dead();
                self.give_up_bequests();
                Ok(())
            }
            Some(Request::Mount | Request::Unmount) => {
                // What the dead hold keeps no mount busy.
                self.bury_the_dead();
                self.server.serve(caller, message);
                return;
            }
            _ => {
                self.server.serve(caller, message);
                return;
            }
        };
        message[0] = outcome.map_or_else(|error| u64::from(error.number()), |()| 0);
    }

    /// Gives a client its window: the one that begins with a page, if that is `wanted`.
    fn attach(&mut self, caller: u64, wanted: PageNumber, message: &mut Message) -> Result<()> {
        let client = self.server.clients.get(&caller).ok_or(Errno::EPERM)?;
        let principal = self.pending_execs.principal_of(caller).unwrap_or_else(|| client.credentials.principal());
        let window = match &client.window {
            Some(window) => window.clone(),
            None => self.fresh_window(principal, wanted)?,
        };
        self.server.clients.entry(caller).and_modify(|client| client.window = Some(window.clone()));
        for (word, two) in message[1..].iter_mut().zip(window.pages().chunks(2)) {
            *word = two[0].0 | two.get(1).map_or(0, |page| page.0) << 32;
        }
        Ok(())
    }

    /// A window that no client has: one that a dead client of the same user left, if no other process maps it, or a new
    /// one. The one that is `wanted` may be mapped once more, where the client will be.
    fn fresh_window(&mut self, principal: u64, wanted: PageNumber) -> Result<Mapping> {
        let from = self.server.keys.windows(principal)?;
        let is_fit = |window: &Mapping| {
            let others = u64::from(window.pages()[0] == wanted);
            let is_fit = |info: runtime::exposed::Page| info.references() == 1 + others && info.access() == from.list;
            window.pages().iter().all(|page| exposed::page(*page).is_some_and(is_fit))
        };
        // Whose window is still mapped comes first.
        let found = |first: bool| move |window: &Mapping| (window.pages()[0] == wanted || !first) && is_fit(window);
        let place = self.spare.iter().rposition(found(true)).or_else(|| self.spare.iter().rposition(found(false)));
        if let Some(place) = place {
            let window = self.spare.remove(place);
            protocol::idle_in(window.words()).take_all().for_each(drop);
            return Ok(window);
        }
        let mut pages = vec![PageNumber::NONE; WINDOW_PAGES];
        from.allocate_many(&mut pages)?;
        self.server.mappings.open(pages, from.key, true)
    }

    fn give_up_window(&mut self, window: &Mapping) {
        self.server.mappings.close(window);
        principals::ANY_WINDOW.free_many(window.pages());
    }

    /// A new process inherits what its maker holds, but for what it has no use for. The session may make one that holds
    /// the root only.
    fn adopt(&mut self, environment: EnvironmentId, caller: u64, message: &mut Message) -> Result<()> {
        let newborn = message[1];
        self.bury_the_dead();
        check_maker(environment, newborn)?;
        let left_out = self.left_out(caller, message[3]);
        self.register(caller, newborn, &left_out)?;
        if message[2] == 1 { self.attach(newborn, PageNumber(message[4]), message) } else { Ok(()) }
    }

    /// Nodes that a newborn is not to hold, as its maker tells.
    fn left_out(&self, maker: u64, count: u64) -> Vec<u64> {
        let window = self.server.clients.get(&maker).and_then(|client| client.window.as_ref());
        let words = window.map_or(&[][..], |window| &window.words()[..WINDOW_BYTES as usize / 8]);
        words.iter().take(count as usize).map(|word| word.load(Relaxed)).collect()
    }

    /// It holds what its maker holds, but for what is left out, each once.
    fn register(&mut self, caller: u64, newborn: u64, left_out: &[u64]) -> Result<()> {
        let maker = self.server.clients.get(&caller);
        // The session made the environment that this runs in.
        let by_session = exposed::environment(area::number()).is_some_and(|own| own.creator.load(Acquire) == caller);
        if maker.is_none() && !by_session || self.server.clients.contains_key(&newborn) {
            return Err(Errno::EPERM);
        }
        let holds = maker.map_or_else(|| NumberMap::from_iter([(ROOT, 1)]), |maker| maker.needed_holds(left_out));
        let identity = maker.map_or_else(Default::default, |maker| maker.credentials.clone());
        let root = maker.map_or(Location::first(ROOT), |maker| maker.root);
        for (word, count) in &holds {
            for _ in 0..*count {
                self.server.hold_for_nobody(Handle::from_word(*word))?;
            }
        }
        self.server
            .clients
            .insert(newborn, Client { window: None, holds, credentials: identity, groups_told: Vec::new(), root });
        Ok(())
    }

    /// A thread speaks for its process.
    fn join(&mut self, environment: EnvironmentId, caller: u64, thread: u64) -> Result<()> {
        check_maker(environment, thread)?;
        let known = |number: &u64| self.server.clients.contains_key(number);
        if !known(&caller) || known(&thread) || self.threads.contains_key(&thread) {
            return Err(Errno::EPERM);
        }
        self.threads.retain(|number, _| exposed::lives(EnvironmentId(*number)));
        self.threads.insert(thread, caller);
        Ok(())
    }

    /// Releases what dead clients held.
    pub fn bury_the_dead(&mut self) {
        let is_dead = |number: &u64| !exposed::lives(EnvironmentId(*number));
        let dead: Vec<u64> = self.server.clients.keys().copied().filter(is_dead).collect();
        for number in dead {
            let Some(client) = self.server.clients.remove(&number) else { continue };
            let mut any = self.server.locks.forget(Owner::Process(number));
            for (word, count) in client.holds {
                let handle = Handle::from_word(word);
                any |= (0..count).filter(|_| self.server.let_go(handle).is_ok()).count() > 0;
            }
            if any {
                self.server.tell_of_change();
            }
            if let Some(window) = client.window {
                if self.spare.len() == SPARE {
                    let oldest = self.spare.remove(0);
                    self.give_up_window(&oldest);
                }
                self.spare.push(window);
            }
        }
        self.forget_wishes();
    }
}

/// Only who made an environment says whose it is.
fn check_maker(maker: EnvironmentId, made: u64) -> Result<()> {
    let creator = exposed::environment(EnvironmentId(made)).map(|info| info.creator.load(Acquire));
    if creator == Some(maker.0) { Ok(()) } else { Err(Errno::EPERM) }
}

/// The disks of the machine.
fn disks() -> Vec<Disk> {
    let record = |number| {
        disk::find(number)?;
        Some(Disk { bytes: disk::capacity(number), read_only: disk::is_read_only(number) })
    };
    (0..vfs::disk_number::MOST).map_while(record).collect()
}

/// The page that tells clients of changes: they may read it.
fn open_notice(windows: &mut Mappings, from: Allocator) -> Result<Mapping> {
    windows.open(vec![from.allocate()?], from.key, true)
}

/// The pages of names and nodes: they may read them.
fn open_catalogue(windows: &mut Mappings, from: Allocator) -> Result<Mapping> {
    let mut pages = vec![PageNumber::NONE; dcache::PAGES];
    from.allocate_many(&mut pages)?;
    windows.open(pages, from.key, true)
}

/// The function that the server's environment runs: serves for ever. `argument` is the address of a locked
/// [`Server`] that lives as long as the machine.
pub extern "C" fn run(argument: u64) {
    exos::hw::current::set_service_state(argument);
    principals::begin();
    runtime::transfer::serve(answer)
}

extern "C" fn answer(caller: EnvironmentId, message: &mut Message) {
    let server: &Lock<Server> = service_state();
    server.lock().serve(caller.0, message);
    // A server that is only called never gives the CPU away otherwise, and long requests would end it.
    time_slice::make_up_for_excess();
}

fn now() -> u64 {
    clock::wall_clock().unwrap_or_else(clock::now)
}

/// What the hashes of names begin with. A machine without a source of entropy gives what its clock gives.
fn seed() -> u64 {
    let mut bytes = [0; 8];
    entropy(&mut bytes).map_or_else(|_| clock::ticks(), |()| u64::from_le_bytes(bytes))
}

/// The key that the server's environment finds in its ring for everything that it owns.
pub const OWN_KEY: KeyIndex = KeyIndex::FIRST;
