//! From registers to calls: made from the one table in `abi`, so that a call without a body does not compile.

use crate::kernel::{Kernel, Locked, Outcome, Stop, lock};
use crate::predicate;
use crate::scheduler;
use crate::time_slice;
use crate::transfer::transfer;
use abi::environment::State;
use abi::syscall::{ASYNCHRONOUS, SYNCHRONOUS, number};
use abi::{EnvironmentId, Error, Failure, KeyIndex, PageNumber, UserAddress, Word};
use machine::context::{Entry, Upcall};
use machine::entry::{Frame, SyscallFrame, SystemCall};
use machine::exposed;
use machine::user::UserFault;

/// What each call does, by number, and what anything else gets. Most calls return to their caller; those after which
/// another environment may run get the whole frame.
pub(crate) const SYSTEM_CALLS: [SystemCall; CALLS + 1] = {
    let mut calls = [unusual as SystemCall; CALLS + 1];
    let mut index = 0;
    while index < CALLS {
        calls[index] = PLAIN[index];
        index += 1;
    }
    calls[number::time_slice_yield as usize] = give_way;
    calls[number::predicate_wait as usize] = wait;
    calls
};

extern "C" fn give_way(frame: &mut SyscallFrame) {
    switch(frame, time_slice::give_way);
}

extern "C" fn wait(frame: &mut SyscallFrame) {
    switch(frame, predicate::wait);
}

/// What asks for a transfer, or a call with something above its number: those that switch ignore it.
#[cold]
extern "C" fn unusual(frame: &mut SyscallFrame) {
    if frame.rax & (SYNCHRONOUS | ASYNCHRONOUS) != 0 {
        let entry = if frame.rax & SYNCHRONOUS != 0 { Entry::Synchronous } else { Entry::Asynchronous };
        return switch(frame, |frame| transfer(frame, entry));
    }
    match u64::from(frame.rax as u32) {
        number::time_slice_yield => return give_way(frame),
        number::predicate_wait => return wait(frame),
        _ => {}
    }
    stopped(frame, Error::UnknownCall.about(frame.rax).into());
}

/// A call after which another environment may run. It returns here after a refusal, or with another one's frame.
#[inline(always)]
fn switch(frame: &mut SyscallFrame, body: impl FnOnce(&mut SyscallFrame) -> Outcome<()>) {
    if let Err(stop) = body(frame) {
        stopped(frame, stop);
    }
}

/// A call that returns to its caller, unless the caller dies of it.
#[inline(always)]
fn plain(frame: &mut SyscallFrame, body: impl FnOnce(&mut Kernel, &[u64; 6]) -> Outcome<u64>) {
    let mut kernel = lock();
    let outcome = body(&mut kernel, &frame.arguments);
    if kernel.attention.get() {
        kernel = attend(kernel);
    }
    drop(kernel);
    match outcome {
        Ok(value) => frame.answer(0, value),
        Err(stop) => stopped(frame, stop),
    }
}

/// The call may have been about its caller. A dead caller does not return, and one that an upcall waits for is
/// interrupted as soon as it is back in user mode.
#[cold]
fn attend(mut kernel: Locked) -> Locked {
    let caller = kernel.caller();
    if !caller.is(State::Alive) {
        kernel.abandon(caller);
        scheduler::schedule_with(kernel);
    }
    if kernel.is_waited_for(caller) {
        machine::apic::send(machine::entry::cpu(), machine::apic::WAKE_VECTOR);
    }
    kernel
}

/// Puts a refusal into the caller's registers, or makes its fault an upcall.
#[cold]
fn stopped(frame: &mut SyscallFrame, stop: Stop) {
    match stop {
        Stop::Refused(Failure { error, detail }) => frame.answer(error as u64, detail),
        Stop::Fault(fault) => fault_upcall(frame, fault),
    }
}

/// Bytes of the SYSCALL instruction.
const SYSCALL_BYTES: u64 = 2;

/// A fault in the caller's memory: a page fault at the call, which can then be made again with its registers.
fn fault_upcall(frame: &mut SyscallFrame, fault: UserFault) {
    let mut kernel = lock();
    let caller = kernel.caller();
    let context = kernel.context_of(caller);
    let mut program = frame.program();
    program.rip -= SYSCALL_BYTES;
    let kind = abi::upcall::kind::PAGE_FAULT;
    let upcall = Upcall { entry: Entry::Exception, kind, error: fault.error, detail: fault.address };
    match context.push_upcall(program, upcall) {
        Ok(program) => frame.set_program(program),
        Err(failure) => {
            kernel.condemn_for(caller, failure, kind, program);
            kernel.abandon(caller);
            scheduler::schedule_with(kernel)
        }
    }
}

macro_rules! make_dispatch {
    ($($(#[$doc:meta])* $number:literal $name:ident($($argument:ident: $type:ty),*) -> $result:ty,
       right $right:literal, errors [$($error:ident),*];)*) => {
        /// The bodies of the calls: one method a row.
        pub(crate) trait Calls {
            $(fn $name(&mut self, $($argument: $type),*) -> Outcome<$result>;)*
        }

        /// How many calls there are.
        const CALLS: usize = [$($number),*].len();

        /// The bodies with their arguments in words.
        mod body {
            use super::*;
            $(
                #[allow(unused_mut, unused_variables, reason = "a call may have no arguments")]
                #[inline(always)]
                pub(super) fn $name(kernel: &mut Kernel, words: &[u64; 6]) -> Outcome<u64> {
                    let mut words = words.iter();
                    $(let $argument = <$type>::from_word(*words.next().expect("at most six arguments"));)*
                    Calls::$name(kernel, $($argument),*).map(Word::to_word)
                }
            )*
        }

        /// The bodies by number.
        static BODIES: [fn(&mut Kernel, &[u64; 6]) -> Outcome<u64>; CALLS] = [$(body::$name),*];

        /// The calls that return to their caller, from their entry to their end.
        mod whole {
            use super::*;
            $(
                pub(super) extern "C" fn $name(frame: &mut SyscallFrame) {
                    plain(frame, body::$name);
                }
            )*
        }

        /// The same by number.
        const PLAIN: [SystemCall; CALLS] = [$(whole::$name),*];

        const _: () = {
            let numbers: &[u64] = &[$($number),*];
            let mut index = 0;
            while index < numbers.len() {
                assert!(numbers[index] == index as u64, "the rows of the table stand in the order of their numbers");
                index += 1;
            }
        };
    };
}

/// Calls the body of a row.
pub(crate) fn dispatch(kernel: &mut Kernel, number: u64, arguments: &[u64; 6]) -> Outcome<u64> {
    match BODIES.get(number as usize) {
        Some(body) => body(kernel, arguments),
        None => Err(Error::UnknownCall.about(number).into()),
    }
}

abi::for_each_syscall!(make_dispatch);

/// One line a call: the bodies live with their nouns.
impl Calls for Kernel {
    fn null(&mut self) -> Outcome<()> {
        Ok(())
    }
    fn batch(&mut self, rows: UserAddress, count: u64) -> Outcome<u64> {
        self.run_batch(rows, count)
    }
    fn key_derive(&mut self, key: KeyIndex, slot: KeyIndex, rights: u64, component: u64) -> Outcome<u64> {
        self.derive_key(key, slot, rights, component)
    }
    fn key_copy(
        &mut self,
        key: KeyIndex,
        rights: u64,
        to: EnvironmentId,
        slot: KeyIndex,
        control: KeyIndex,
    ) -> Outcome<()> {
        self.copy_key(key, rights, to, slot, control)
    }
    fn key_drop(&mut self, from: EnvironmentId, slot: KeyIndex, control: KeyIndex) -> Outcome<()> {
        self.drop_key(from, slot, control)
    }
    fn access_list_set(
        &mut self,
        key: KeyIndex,
        list: PageNumber,
        index: u64,
        source: KeyIndex,
        rights: u64,
    ) -> Outcome<()> {
        self.set_access_list_entry(key, list, index, source, rights)
    }
    fn page_allocate(
        &mut self,
        key: KeyIndex,
        list: PageNumber,
        root_key: KeyIndex,
        root: PageNumber,
        rows: UserAddress,
        count: u64,
    ) -> Outcome<u64> {
        self.allocate_pages((key, list), (root_key, root), rows, count)
    }
    fn page_free(&mut self, key: KeyIndex, page: PageNumber) -> Outcome<()> {
        self.free_page(key, page)
    }
    fn page_claim(&mut self, key: KeyIndex, page: PageNumber, list_key: KeyIndex, list: PageNumber) -> Outcome<()> {
        self.claim_page(key, page, list_key, list)
    }
    fn page_unbind(&mut self, key: KeyIndex, page: PageNumber, top: PageNumber, cursor: UserAddress) -> Outcome<()> {
        self.unbind_page(key, page, top, cursor)
    }
    #[inline(always)]
    fn page_map(&mut self, key: KeyIndex, root: PageNumber, rows: UserAddress, count: u64) -> Outcome<u64> {
        self.map_pages(key, root, rows, count)
    }
    fn address_space_switch(&mut self, key: KeyIndex, root: PageNumber) -> Outcome<()> {
        self.switch_address_space(key, root)
    }
    fn page_table_link(
        &mut self,
        key: KeyIndex,
        root: PageNumber,
        address: UserAddress,
        level: u64,
        table: PageNumber,
        table_key: KeyIndex,
    ) -> Outcome<()> {
        self.link_page_table(key, root, address, level, table, table_key)
    }
    fn page_table_unlink(
        &mut self,
        key: KeyIndex,
        root: PageNumber,
        address: UserAddress,
        level: u64,
    ) -> Outcome<PageNumber> {
        self.unlink_page_table(key, root, address, level)
    }
    fn page_table_copy(
        &mut self,
        key: KeyIndex,
        root: PageNumber,
        address: UserAddress,
        level: u64,
        fresh: PageNumber,
        page_key: KeyIndex,
    ) -> Outcome<u64> {
        self.copy_page_table(key, root, address, level, fresh, page_key)
    }
    fn environment_create(&mut self, key: KeyIndex, specification: UserAddress) -> Outcome<EnvironmentId> {
        self.create_environment(key, specification)
    }
    fn environment_destroy(&mut self, key: KeyIndex, environment: EnvironmentId) -> Outcome<()> {
        self.destroy(key, environment)
    }
    fn budget_move(
        &mut self,
        key: KeyIndex,
        from: EnvironmentId,
        to: EnvironmentId,
        resource: u64,
        figure: u64,
        amount: u64,
    ) -> Outcome<()> {
        self.move_budget(key, from, to, resource, figure, amount)
    }
    fn context_set(&mut self, part: u64, value: u64) -> Outcome<()> {
        self.set_context(part, value)
    }
    fn event_raise(&mut self, key: KeyIndex, environment: EnvironmentId, bits: u64) -> Outcome<()> {
        self.raise_event(key, environment, bits)
    }
    fn time_slice_allocate(&mut self, key: KeyIndex, to: EnvironmentId, cpu: u64, position: u64) -> Outcome<u64> {
        self.allocate_slice(key, to, cpu, position)
    }
    fn time_slice_free(&mut self, key: KeyIndex, cpu: u64, position: u64) -> Outcome<()> {
        self.free_slice(key, cpu, position)
    }
    fn time_slice_yield(&mut self, _: EnvironmentId) -> Outcome<()> {
        crate::kernel::refuse(Error::BadArgument, 0)
    }
    fn predicate_wait(&mut self, _: UserAddress, _: u64) -> Outcome<()> {
        crate::kernel::refuse(Error::BadArgument, 0)
    }
    fn cpu_kick(&mut self, cpu: u64) -> Outcome<()> {
        if cpu >= exposed::cpu_count() as u64 {
            return crate::kernel::refuse(Error::NoSuchSlice, cpu);
        }
        crate::interrupt::wake(cpu as usize);
        Ok(())
    }
    fn region_name(
        &mut self,
        key: KeyIndex,
        page: PageNumber,
        region: u64,
        source: KeyIndex,
        rights: u64,
    ) -> Outcome<()> {
        self.name_region(key, page, region, source, rights)
    }
    fn region_copy(
        &mut self,
        key: KeyIndex,
        page: PageNumber,
        place: u64,
        address: UserAddress,
        bytes: u64,
        write: u64,
    ) -> Outcome<()> {
        match write {
            0 => self.read_region(key, page, place, address, bytes),
            1 => self.write_region(key, page, place, address, bytes),
            _ => crate::kernel::refuse(Error::BadArgument, 5),
        }
    }
    fn revocation_request(
        &mut self,
        key: KeyIndex,
        environment: EnvironmentId,
        resource: u64,
        count: u64,
        deadline: u64,
    ) -> Outcome<()> {
        self.request_revocation(key, environment, resource, count, deadline)
    }
    fn revocation_enforce(&mut self, key: KeyIndex, environment: EnvironmentId) -> Outcome<()> {
        self.enforce_revocation(key, environment)
    }
    fn channel_send(&mut self, key: KeyIndex, frame: UserAddress, bytes: u64) -> Outcome<()> {
        self.send_frame(key, frame, bytes)
    }
    fn channel_receive(&mut self, key: KeyIndex, buffer: UserAddress, bytes: u64) -> Outcome<u64> {
        self.receive_frame(key, buffer, bytes)
    }
    fn entropy_read(&mut self, buffer: UserAddress, bytes: u64) -> Outcome<()> {
        self.read_entropy(buffer, bytes)
    }
    fn device_bind(
        &mut self,
        key: KeyIndex,
        device: u64,
        queue: u64,
        environment: EnvironmentId,
        bits: u64,
    ) -> Outcome<()> {
        self.bind_device(key, device, queue, environment, bits)
    }
    fn device_submit(&mut self, key: KeyIndex, device: u64, queue: u64, rows: UserAddress, count: u64) -> Outcome<u64> {
        self.submit_requests(key, device, queue, rows, count)
    }
    fn page_become(&mut self, key: KeyIndex, page: PageNumber, kind: u64, argument: u64) -> Outcome<()> {
        self.become_object(key, page, kind, argument)
    }
    fn network_open(&mut self, key: KeyIndex, interface: u64, open: u64) -> Outcome<()> {
        self.open_interface(key, interface, open)
    }
    fn filter_insert(&mut self, key: KeyIndex, specification: UserAddress) -> Outcome<u64> {
        self.insert_filter(key, specification)
    }
    fn filter_remove(&mut self, key: KeyIndex, filter: u64) -> Outcome<()> {
        self.remove_filter(key, filter)
    }
    fn filter_direct(&mut self, key: KeyIndex, filter: u64, ring_key: KeyIndex, ring: PageNumber) -> Outcome<()> {
        self.direct_filter(key, filter, ring_key, ring)
    }
    fn packet_send(&mut self, key: KeyIndex, ring: PageNumber, first: u64, count: u64) -> Outcome<u64> {
        self.send_packets(key, ring, first, count)
    }
    fn machine_set(&mut self, key: KeyIndex, setting: u64, value: u64) -> Outcome<()> {
        self.set_machine(key, setting, value)
    }
    fn volume_step(&mut self, key: KeyIndex, disk: u64, step: u64, argument: u64, more: u64) -> Outcome<u64> {
        self.step_volume(key, disk, step, argument, more)
    }
    fn block_bind(&mut self, key: KeyIndex, parent: u64, sector: u64, block: u64, frame: u64) -> Outcome<u64> {
        self.bind_block(key, parent, sector, block, frame)
    }
    fn block_read(&mut self, key: KeyIndex, frame: u64, offset: u64, to: UserAddress, bytes: u64) -> Outcome<()> {
        self.read_block(key, frame, offset, to, bytes)
    }
    fn block_write(&mut self, key: KeyIndex, frame: u64, offset: u64, from: UserAddress, bytes: u64) -> Outcome<()> {
        self.write_block(key, frame, offset, from, bytes)
    }
    fn block_modify(&mut self, key: KeyIndex, transaction: UserAddress) -> Outcome<()> {
        self.modify_blocks(key, transaction)
    }
    fn block_submit(&mut self, key: KeyIndex, frame: u64) -> Outcome<()> {
        self.submit_block(key, frame)
    }
    fn block_release(&mut self, key: KeyIndex, frame: u64) -> Outcome<()> {
        self.release_block(key, frame)
    }
}
