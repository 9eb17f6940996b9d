//! The one table of system calls; everything else that knows a call is made from it.
//!
//! Registers: number in `rax`, arguments in `rdi rsi rdx r10 r8 r9`. The error (0: done) comes back in `rax`, result or
//! detail in `rdx`; `rcx` and `r11` are lost, all others stay. A bad pointer into the caller's own memory is a
//! page-fault upcall with RIP at the `syscall`, so that the call can be repeated once the page is there. A pointer that
//! could never be right is [`crate::Error::BadAddress`].
//!
//! A protected control transfer is no row. A bit asks for it instead of a number: `rax` holds [`SYNCHRONOUS`] or
//! [`ASYNCHRONOUS`], and the callee's number in the bits of [`CALLEE`]. The registers are the message: all pass but
//! `rcx`, `r11` and the flags, FS base too where the CPU has FSGSBASE. GS base is the callee's private page. Of the
//! caller only RIP and RSP are kept. A slice of its own may begin before it is entered. Then it resumes there with an
//! FS base of 0 (its own without FSGSBASE) and the flags that it began with.

/// In `rax`: a synchronous transfer.
pub const SYNCHRONOUS: u64 = 1 << 63;
/// In `rax`: an asynchronous transfer, unless [`SYNCHRONOUS`] is there too.
pub const ASYNCHRONOUS: u64 = 1 << 62;
/// In `rax`: the number of the callee of a transfer. No environment has a larger one.
pub const CALLEE: u64 = (1 << 54) - 1;

/// Calls `$callback!` with every row of the table.
#[macro_export]
macro_rules! for_each_syscall {
    ($callback:ident) => {
        $callback! {
            /// Does nothing: the cost of crossing.
            0 null() -> (), right "none", errors [];
            /// Runs `count` rows of [`BatchRow`](crate::syscall::BatchRow) and stops at the first error, whose
            /// index is the detail; the error and its own detail are left in the row. Rows cannot be transfers,
            /// yields, waits or batches.
            1 batch(rows: UserAddress, count: u64) -> u64, right "as the rows", errors [TooMany, BadAddress, BadArgument];

            /// Derives a key into the empty slot `slot`: the name of `key` and one more component (0: a fresh one,
            /// never given before; else one below 2^32). It has those of its rights that `rights` names.
            2 key_derive(key: KeyIndex, slot: KeyIndex, rights: u64, component: u64) -> u64, right "any", errors [NoSuchKey, NotFree, BadArgument, TooMany];
            /// Copies a key with those of its rights that `rights` names into the empty slot `slot` of an environment.
            /// That is the caller's own, one that `control` dominates, or one whose inbox expects it.
            3 key_copy(key: KeyIndex, rights: u64, environment: EnvironmentId, slot: KeyIndex, control: KeyIndex) -> (), right "own on the environment, or its inbox", errors [NoSuchKey, NotFree, NotPermitted, NoSuchEnvironment, BadArgument];
            /// Empties a slot of the caller's ring, or of the ring of an environment that `control` dominates.
            4 key_drop(environment: EnvironmentId, slot: KeyIndex, control: KeyIndex) -> (), right "own on the environment", errors [NoSuchKey, NotPermitted, NoSuchEnvironment];

            /// Makes an unmapped page of the caller's into an object of another kind, which says what `argument`
            /// is. For `AccessList` it is the index of a key, whose name becomes the first entry, with all rights.
            /// For `PageTable` it is 4, the level: the page becomes the root of a new, empty address space. For
            /// `Region` it is 0: the software regions are empty and nameless. For `PacketRing` it is the address
            /// of a [`RingSpecification`](crate::packet_ring::RingSpecification). Each page of the ring bears a
            /// device pin while the ring lives. `page_free` of the object ends the ring. The ring also ends when a
            /// page of it is taken by force.
            5 page_become(key: KeyIndex, page: PageNumber, kind: u64, argument: u64) -> (), right "own on the page and on each page of the ring", errors [NoSuchKey, NoSuchPage, NotPermitted, WrongKind, InUse, BadAddress, BadArgument, OverBudget, Absent];
            /// Sets an entry of an access list to the name of `source` with `rights`; no rights empty the entry.
            6 access_list_set(key: KeyIndex, list: PageNumber, index: u64, source: KeyIndex, rights: u64) -> (), right "own on the list", errors [NoSuchKey, NoSuchPage, NotPermitted, WrongKind, BadArgument];

            /// Allocates a page under an access list for each of `count` rows of
            /// [`MapRow`](crate::page_table::MapRow), and sets the entry of the row to it, as `page_map` does. The
            /// page number in a row is that of an ordinary page whose contents the fresh page begins with
            /// ([`PageNumber::NONE`](crate::PageNumber::NONE): zeros). The number of the fresh page takes its
            /// place in the caller's memory. Where `root` is [`PageNumber::NONE`](crate::PageNumber::NONE),
            /// nothing is mapped: rows have no bits, and their address is that of the very page that is wanted (0:
            /// any). Stops at the first error. The result is how many rows were done, also after an error, whose
            /// detail is the row.
            7 page_allocate(key: KeyIndex, list: PageNumber, root_key: KeyIndex, root: PageNumber, rows: UserAddress, count: u64) -> u64, right "own on the list; write on the root; by the key of each row read on the source, read or write on the list", errors [NoSuchKey, NoSuchPage, NotPermitted, WrongKind, BadAddress, BadArgument, NotMapped, Shared, NotFree, OverBudget, Exhausted, TooMany, Again];
            /// Gives a page up. A page that is still used stays as an orphan until its last use ends. Uses are the
            /// entries and device pins that hold it, and the links that lead to a table. Of an access list that names
            /// itself, the pages that name it are uses, too. A table that nothing leads to is emptied first, in steps.
            8 page_free(key: KeyIndex, page: PageNumber) -> (), right "own on the page, unless the caller is charged for it", errors [NoSuchKey, NoSuchPage, NotPermitted, WrongKind, InUse, Again];
            /// Takes over the charge for an ordinary page or a page table and puts it under another access list.
            9 page_claim(key: KeyIndex, page: PageNumber, list_key: KeyIndex, list: PageNumber) -> (), right "own on the page and on the list", errors [NoSuchKey, NoSuchPage, NotPermitted, WrongKind, OverBudget];
            /// Ends by force every use of a page but that of a device, given up or not. Its ring ends. Under a
            /// root, or another table that nothing leads to, the entries that map it and the links that lead to it
            /// go, in steps from address `cursor` on. The detail of `Again` is the next cursor.
            10 page_unbind(key: KeyIndex, page: PageNumber, top: PageNumber, cursor: UserAddress) -> (), right "own on the page, unless the caller is charged for it", errors [NoSuchKey, NoSuchPage, NotPermitted, WrongKind, BadAddress, Again];
            /// Edits entries of an address space: `count` rows of [`MapRow`](crate::page_table::MapRow); stops at
            /// the first error. The result is how many rows were done, also after an error, whose detail is the
            /// row. `Again` is such an error: the rows from there on are left for another call.
            11 page_map(key: KeyIndex, root: PageNumber, rows: UserAddress, count: u64) -> u64, right "write on the root; read or write on each page", errors [NoSuchKey, NoSuchPage, NotPermitted, WrongKind, BadAddress, BadArgument, NotMapped, Shared, TooMany, Again];

            /// Makes `root` the address space of the caller, which resumes there.
            12 address_space_switch(key: KeyIndex, root: PageNumber) -> (), right "write on the root", errors [NoSuchKey, NoSuchPage, NotPermitted, WrongKind];
            /// Links a page table at `level` (1 to 3) where `address` lies. It is an unmapped page of the caller's,
            /// which becomes an empty table, or a table of that level. Such a table is shared from then on: immutable,
            /// and read-only through every link. A key that only reads links a table that is shared already. The link
            /// that makes it shared takes a key that writes, too. A table that maps private pages, or leads to one, is
            /// never shared.
            13 page_table_link(key: KeyIndex, root: PageNumber, address: UserAddress, level: u64, table: PageNumber, table_key: KeyIndex) -> (), right "write on the root; own on the page, or read on the table, and write unless it is shared", errors [NoSuchKey, NoSuchPage, NotPermitted, WrongKind, BadAddress, BadArgument, NotMapped, NotFree, Shared, InUse];
            /// Removes a link. A table that loses its last link must be empty but for level 1, which is emptied in
            /// steps; it becomes an ordinary page again.
            14 page_table_unlink(key: KeyIndex, root: PageNumber, address: UserAddress, level: u64) -> PageNumber, right "write on the root", errors [NoSuchKey, NoSuchPage, NotPermitted, WrongKind, BadAddress, BadArgument, NotMapped, Shared, InUse, Again];
            /// Ends the sharing of a table at `level` where `address` lies. The kernel copies the table into `fresh`,
            /// an unmapped page of the caller's. It checks each entry against the rights of `page_key`. Where this link
            /// is the table's last one, the kernel only makes it writable again. The result is 1 where `fresh` was
            /// used, else 0.
            15 page_table_copy(key: KeyIndex, root: PageNumber, address: UserAddress, level: u64, fresh: PageNumber, page_key: KeyIndex) -> u64, right "write on the root; own on the page", errors [NoSuchKey, NoSuchPage, NotPermitted, WrongKind, BadAddress, BadArgument, NotMapped, InUse, Again];
            /// Creates an environment from a [`Specification`](crate::environment::Specification). It begins at
            /// its slice start entry, once it has a slice. With the parts of a dead environment, each call first
            /// releases some of what that one held, as `environment_destroy` does. The new environment has another
            /// number, an empty key ring and no budget.
            16 environment_create(key: KeyIndex, specification: UserAddress) -> EnvironmentId, right "own on every page; with parts, own on the dead environment that the caller created, and read on `first`", errors [NoSuchKey, NoSuchPage, NotPermitted, WrongKind, InUse, BadAddress, BadArgument, NotMapped, NoSuchEnvironment, OverBudget, Exhausted, Again];
            /// Destroys an environment: at once it never runs again, then each call releases a part of what it
            /// held. `Again` with the state `Zombie`: only its slot, its public page and its root are left, and the
            /// next call releases these. Its other pages are ordinary pages, and its creator has its budget.
            17 environment_destroy(key: KeyIndex, environment: EnvironmentId) -> (), right "own on the environment, unless the caller created it", errors [NoSuchKey, NotPermitted, NoSuchEnvironment, Again];
            /// Moves `amount` of a [`Figure`](crate::budget::Figure) of a resource from one budget to another. The
            /// giver may be dying. Otherwise no environment could use what a dying giver inherits, while it stays.
            18 budget_move(key: KeyIndex, from: EnvironmentId, to: EnvironmentId, resource: u64, figure: u64, amount: u64) -> (), right "own on the giver, unless it is the caller", errors [NoSuchKey, NotPermitted, NoSuchEnvironment, BadArgument, OverBudget];
            /// Sets a [`ContextPart`](crate::environment::ContextPart) of the caller's context. Absent protection
            /// keys are `BadArgument`.
            19 context_set(part: u64, value: u64) -> (), right "none", errors [BadAddress, BadArgument];
            /// Raises event bits of an environment, one at least: those it accepts from every environment, or any with
            /// `key`.
            20 event_raise(key: KeyIndex, environment: EnvironmentId, bits: u64) -> (), right "write on the environment, or accepted bits", errors [NoSuchKey, NotPermitted, NoSuchEnvironment, BadArgument];

            /// Allocates a position of a CPU's slice vector for an environment: this one, or any.
            21 time_slice_allocate(key: KeyIndex, environment: EnvironmentId, cpu: u64, position: u64) -> u64, right "own on the environment, unless it is the caller", errors [NoSuchKey, NotPermitted, NoSuchEnvironment, NoSuchSlice, NotFree, OverBudget, Exhausted];
            /// Gives a position up. Where the caller runs in it and is not its owner, it goes back to its owner,
            /// and the rest of the slice stays the caller's. Otherwise the position becomes free.
            22 time_slice_free(key: KeyIndex, cpu: u64, position: u64) -> (), right "own on its owner, unless the caller owns it or runs in it", errors [NoSuchKey, NotPermitted, NoSuchSlice];
            /// Gives the rest of the slice to an environment. With
            /// [`EnvironmentId::NONE`](crate::EnvironmentId::NONE), the kernel picks the next environment. Only RIP,
            /// RSP, flags and FS base are kept, and GS base is the private page; the next slice begins with an upcall
            /// above them. `Busy`: it runs elsewhere, waits for a predicate, or has never run and is neither the
            /// caller's own making nor the owner of a slice.
            23 time_slice_yield(environment: EnvironmentId) -> (), right "none", errors [NoSuchEnvironment, Busy];
            /// Yields until a predicate of `count` [`Term`](crate::predicate::Term)s is true.
            24 predicate_wait(terms: UserAddress, count: u64) -> (), right "read on the watched pages", errors [BadAddress, BadArgument, TooMany, OverBudget];
            /// Wakes a CPU that is idle, so that it looks at the predicates again.
            25 cpu_kick(cpu: u64) -> (), right "none", errors [NoSuchSlice];

            /// Names a region after `source`, with the most that keys under that name may do.
            26 region_name(key: KeyIndex, page: PageNumber, region: u64, source: KeyIndex, rights: u64) -> (), right "own on the page", errors [NoSuchKey, NoSuchPage, NotPermitted, WrongKind, BadArgument];
            /// Copies bytes out of a region (`write` 0) or into it (1). `place` is `region << 32 | offset`.
            27 region_copy(key: KeyIndex, page: PageNumber, place: u64, address: UserAddress, bytes: u64, write: u64) -> (), right "read or write on the region", errors [NoSuchKey, NoSuchPage, NotPermitted, WrongKind, BadArgument, BadAddress];

            /// Asks another environment to give back `count` of a resource by a time; after it, `revocation_enforce`
            /// takes. An open request only becomes larger and earlier, with one exception: a key whose name is a
            /// proper prefix of the environment's replaces it. That name is no longer than the one by which the open
            /// request was made. A `count` of 0 withdraws it.
            28 revocation_request(key: KeyIndex, environment: EnvironmentId, resource: u64, count: u64, deadline: u64) -> (), right "own on the environment", errors [NoSuchKey, NotPermitted, NoSuchEnvironment, BadArgument, InUse];
            /// Takes, in steps, what an environment has not given back by the deadline, and records it in its
            /// repossession vector. It takes orphans and objects made of pages, too. The detail of `Again` is how
            /// much is missing. `Exhausted` ends the request; its detail is how much cannot be taken.
            29 revocation_enforce(key: KeyIndex, environment: EnvironmentId) -> (), right "own on the environment", errors [NoSuchKey, NotPermitted, NoSuchEnvironment, BadArgument, Exhausted, Again];

            /// Sends one whole frame of the host channel.
            30 channel_send(key: KeyIndex, frame: UserAddress, bytes: u64) -> (), right "write on the channel", errors [NoSuchKey, NotPermitted, BadArgument, BadAddress, Absent, Exhausted];
            /// Receives one whole frame; the result is its length with the header, 0 where none waits.
            31 channel_receive(key: KeyIndex, buffer: UserAddress, bytes: u64) -> u64, right "read on the channel", errors [NoSuchKey, NotPermitted, BadArgument, BadAddress, Absent];
            /// Fills a buffer with random bytes.
            32 entropy_read(buffer: UserAddress, bytes: u64) -> (), right "none", errors [BadAddress, TooMany, Absent];
            /// Sets a [`Setting`](crate::machine::Setting) of the machine: stops it, or sets a number that scheduling
            /// or revocation goes by, which is exposed in [`KernelInfo`](crate::exposed::KernelInfo). The detail of
            /// `BadArgument` is 1 for the setting, 2 for its value.
            33 machine_set(key: KeyIndex, setting: u64, value: u64) -> (), right "own on the root", errors [NoSuchKey, NotPermitted, BadArgument];

            /// Makes the end of a request on a queue of a device raise event bits of an environment. The console raises
            /// them when a frame came or room came free. The environment is the caller, or accepts the bits from every
            /// environment. [`EnvironmentId::NONE`](crate::EnvironmentId::NONE) or no bits end the binding. `device` is
            /// the index in [`DeviceInfo`](crate::device::DeviceInfo)`[]`.
            34 device_bind(key: KeyIndex, device: u64, queue: u64, environment: EnvironmentId, bits: u64) -> (), right "own on the device", errors [NoSuchKey, NotPermitted, NoSuchEnvironment, BadArgument, Absent];
            /// Submits requests of `count` rows of [`TransferRow`](crate::device::TransferRow) to a disk: all or none.
            /// The kernel pins each page for the device until the request ends, writes the result into the status
            /// word, and raises the bound event bits. The result is the number of requests. `Exhausted`: the device
            /// takes no more now. `OverBudget` with the resource `Page`: the caller or the owner of a page has not
            /// given back pages in time. `InUse`: a volume of the disk is open, and a row writes. `TooMany`: with these
            /// requests the caller would have more than `DEVICE_PINS`.
            35 device_submit(key: KeyIndex, device: u64, queue: u64, rows: UserAddress, count: u64) -> u64, right "read on the device, write to write or flush; own on each page", errors [NoSuchKey, NotPermitted, NoSuchPage, WrongKind, BadAddress, BadArgument, OverBudget, Exhausted, TooMany, Absent, InUse];

            /// Opens an interface (1) or closes it (0). A closed one receives and sends nothing.
            36 network_open(key: KeyIndex, interface: u64, open: u64) -> (), right "own on the interface", errors [NoSuchKey, NotPermitted, BadArgument, InUse, Absent];
            /// Inserts a filter made of a [`FilterSpecification`](crate::packet_filter::FilterSpecification), in
            /// steps. The result is its number. After `Again` the next call continues with the filter that the caller
            /// began, whatever its arguments. `NotPermitted` with 256 + n: conjunction n is not contained in the
            /// parent; with 512 + n: byte n of the template is not. `BadArgument` with 256 + 32 c + a: atom a of
            /// conjunction c. `Overlap` names a filter that the caller does not own and that does not lie above the
            /// new one.
            37 filter_insert(key: KeyIndex, specification: UserAddress) -> u64, right "own on the parent, or on the interface; own on the list; write on the ring", errors [NoSuchKey, NoSuchPage, NotPermitted, WrongKind, BadAddress, BadArgument, OverBudget, Exhausted, TooMany, Overlap, Gone, Absent, Again];
            /// Removes a filter, in steps. Filters in it come to lie in its parent.
            38 filter_remove(key: KeyIndex, filter: u64) -> (), right "own on the filter, unless the caller inserted it", errors [NoSuchKey, NotPermitted, Gone, Absent, Again];
            /// Gives a filter another ring, or none ([`PageNumber::NONE`](crate::PageNumber::NONE)).
            39 filter_direct(key: KeyIndex, filter: u64, ring_key: KeyIndex, ring: PageNumber) -> (), right "own on the filter, write on the ring", errors [NoSuchKey, NoSuchPage, NotPermitted, WrongKind, Gone, Absent];
            /// Sends the frames of up to `count` [`SendSlot`](crate::packet_ring::SendSlot)s of a ring, from slot
            /// `first` on, round and round. The result is how many were taken. The error is that of the first. The
            /// kernel copies the header, compares it with the template of the filter, and sends the copy. It pins the
            /// pages of segments until the frame is sent. `NotPermitted` with 256 + n: byte n of the header differs
            /// from the template. `BadArgument` with 256: the counts of the slot, 257: its offload, 258 + n: segment
            /// n. `Exhausted`: the device takes no more now.
            40 packet_send(key: KeyIndex, ring: PageNumber, first: u64, count: u64) -> u64, right "write on the ring and on each filter, read on each page", errors [NoSuchKey, NoSuchPage, NotPermitted, WrongKind, BadArgument, OverBudget, Exhausted, TooMany, Gone, Absent, Again];

            /// Does a [`step`](crate::storage::step) with the volume of a disk. A step that takes long, or that
            /// waits for the disk, is refused with `Again`: the same call continues it. `Absent` with a block:
            /// the map of its region is not loaded. `Unready`: what must be written, or flushed, first.
            41 volume_step(key: KeyIndex, disk: u64, step: u64, argument: u64, more: u64) -> u64,
                right "own or write on the disk, as the step says",
                errors [NoSuchKey, NotPermitted, BadArgument, BadAddress, NotFree, Exhausted, Again, Busy,
                    InUse, Absent, TooMany, Unready, Damaged, Failed];
            /// Binds an empty frame to `block`, which sector `sector` of the block in frame `parent` owns, or
            /// to the root block of a tree ([`ROOT`](crate::storage::ROOT) + tree). The access program of the
            /// tree decides. The result is 0 for a block that the disk holds nothing of: it is zeroed. It is 1
            /// if the disk is being read.
            42 block_bind(key: KeyIndex, parent: u64, sector: u64, block: u64, frame: u64) -> u64,
                right "read, by the access program",
                errors [NoSuchKey, NotPermitted, BadArgument, NotFree, Exhausted, Busy, InUse, Absent, Damaged,
                    Failed];
            /// Copies bytes of a cached block out.
            43 block_read(key: KeyIndex, frame: u64, offset: u64, to: UserAddress, bytes: u64) -> (),
                right "read, by the access program",
                errors [NoSuchKey, NotPermitted, BadArgument, BadAddress, Busy, Absent];
            /// Copies bytes into a cached block of a leaf template.
            44 block_write(key: KeyIndex, frame: u64, offset: u64, from: UserAddress, bytes: u64) -> (),
                right "write, by the access program",
                errors [NoSuchKey, NotPermitted, BadArgument, BadAddress, Busy, Absent, Failed, Damaged];
            /// Changes metadata by a [`TransactionSpecification`](crate::storage::TransactionSpecification),
            /// all or nothing. The owns program must confirm exactly what is declared. `TooMany`: the programs
            /// could take more than an entry may.
            45 block_modify(key: KeyIndex, transaction: UserAddress) -> (),
                right "modify, by the access program",
                errors [NoSuchKey, NotPermitted, BadArgument, BadAddress, NotFree, OverBudget, Exhausted, Busy,
                    InUse, Absent, TooMany, Unready, Damaged, Failed];
            /// Writes a cached block to the disk. Only the order of writes is checked: `Unready` names a block
            /// to write first, or a flush. `Again`: some checksums of its sectors are made, the same call
            /// continues. That happens on a CPU without the instruction for them.
            46 block_submit(key: KeyIndex, frame: u64) -> (),
                right "any",
                errors [NoSuchKey, NotPermitted, BadArgument, Exhausted, Again, Busy, Absent, Unready, Damaged, Failed];
            /// Empties a frame whose block is clean, durable, and has no children in frames.
            47 block_release(key: KeyIndex, frame: u64) -> (),
                right "any",
                errors [NoSuchKey, NotPermitted, BadArgument, InUse, Absent];
        }
    };
}

/// One row of a `batch`. 64 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct BatchRow {
    /// The call; after the batch, the error of the row (0: done).
    pub number: u64,
    /// Its arguments; after the batch, the first is the result or the detail.
    pub arguments: [u64; 6],
    /// Not used.
    pub unused: u64,
}

/// A row of the table, as data: for documentation, traces and tests.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Number of the call.
    pub number: u64,
    /// Its name, noun first.
    pub name: &'static str,
    /// Names and types of its arguments.
    pub arguments: &'static [(&'static str, &'static str)],
    /// Type of its result.
    pub result: &'static str,
    /// The right that it needs, in words.
    pub right: &'static str,
    /// How it can refuse, beyond `UnknownCall`.
    pub errors: &'static [crate::Error],
    /// What it does.
    pub doc: &'static [&'static str],
}

macro_rules! make_table {
    ($($(#[doc = $doc:literal])* $number:literal $name:ident($($argument:ident: $type:ty),*) -> $result:ty,
       right $right:literal, errors [$($error:ident),*];)*) => {
        /// The numbers, one constant a call.
        #[allow(non_upper_case_globals, reason = "the constant bears the name of the call")]
        pub mod number {
            $($(#[doc = $doc])* pub const $name: u64 = $number;)*
        }

        /// Every call, in the order of the numbers.
        pub const TABLE: &[Row] = &[$(Row {
            number: $number,
            name: stringify!($name),
            arguments: &[$((stringify!($argument), stringify!($type))),*],
            result: stringify!($result),
            right: $right,
            errors: &[$(crate::Error::$error),*],
            doc: &[$($doc),*],
        }),*];
    };
}

for_each_syscall!(make_table);

const _: () = {
    let mut index = 0;
    while index < TABLE.len() {
        assert!(TABLE[index].number == index as u64, "the rows stand in the order of their numbers");
        index += 1;
    }
};
