//! Descriptor table, pipe ring, archive, command, signals and the bytes of Linux's structures.

use linux_abi::errno::Errno;
use linux_raw_sys::general as linux;
use unix_core::fd_table::FdTable;
use unix_core::pipe::ring::{ATOMIC, CAPACITY, MOST, Ring};
use unix_core::process::exit_status::Status;
use unix_core::session::command;
use unix_core::signal::frame::{self, Frame, Information};
use unix_core::signal::set;
use unix_core::uapi;
use vfs::cpio;
use vfs::inode::Status as NodeStatus;

#[test]
fn the_lowest_free_descriptor_is_given_out() {
    let mut table = FdTable::default();
    assert_eq!((table.add('a', 0, false), table.add('b', 0, true), table.add('c', 5, false)), (Ok(0), Ok(1), Ok(5)));
    assert_eq!(table.remove(0), Ok('a'));
    assert_eq!(table.remove(0), Err(Errno::EBADF));
    assert_eq!(table.add('d', 0, false), Ok(0));
    assert_eq!(table.replace(5, 'e', false), Ok(Some('c')));
    assert_eq!((table.take_closed_by_exec(2), table.take_closed_by_exec(9)), (None, None));
    assert_eq!(table.take_closed_by_exec(0), Some((1, 'b')));
    assert_eq!(table.iter().map(|(number, file)| (number, *file)).collect::<Vec<_>>(), [(0, 'd'), (5, 'e')]);
    assert_eq!(table.iter_from(1).map(|(number, file)| (number, *file)).collect::<Vec<_>>(), [(5, 'e')]);
    assert_eq!(table.iter_from(6).count(), 0);
    assert_eq!([table.take_last(), table.take_last(), table.take_last()], [Some('e'), Some('d'), None]);
    assert_eq!(table.add('f', 0, false), Ok(0), "the lowest number is free again");
}

#[test]
fn fault_83_descriptors_beyond_the_limit_are_refused() {
    let mut table = FdTable::default();
    for number in 0..1024 {
        assert_eq!(table.add(number, 0, false), Ok(number));
    }
    assert_eq!(table.add(0, 0, false), Err(Errno::EMFILE));
    assert_eq!(table.replace(1024, 0, false), Err(Errno::EBADF));
    assert_eq!(table.replace(u64::MAX, 0, false), Err(Errno::EBADF));
    assert_eq!(table.get(u64::MAX), Err(Errno::EBADF));
}

#[test]
fn descriptors_above_a_lowered_limit_take_no_room() {
    let mut table = FdTable::default();
    for number in 0..20 {
        assert_eq!(table.add(number, number * 3, false), Ok(number * 3));
    }
    table.set_limit(10);
    assert_eq!(table.room(), 6, "0, 3, 6 and 9 are taken");
    assert_eq!((table.remove(57), table.remove(9), table.room()), (Ok(19), Ok(3), 7));
    assert_eq!((table.put_at(50, 7), table.room()), (None, 7));
    table.set_limit(100);
    assert_eq!(table.room(), 100 - 19);
}

#[test]
fn a_ring_passes_every_byte_in_order() {
    let mut random = fastrand::Rng::with_seed(3);
    let mut memory = vec![0u8; MOST as usize];
    let mut ring = Ring { written: u64::MAX - 1000, read: u64::MAX - 1000, shape: 0 };
    let (mut sent, mut received) = (0u64, 0u64);
    while received < 4_000_000 {
        if received > 1_000_000 && ring.shape == 0 || received > 2_000_000 && ring.size() < MOST / 2 {
            let before = memory.clone();
            let grown = Ring { shape: ring.shape_of(ring.size() * 4), ..ring };
            for position in (0..sent - received).map(|byte| ring.read.wrapping_add(byte)) {
                memory[grown.stretch(position, 1).offset as usize] = before[ring.stretch(position, 1).offset as usize];
            }
            ring = grown;
        }
        let stretch = ring.to_write(random.u64(..40_000)).expect("sane");
        for at in stretch.offset..stretch.offset + stretch.bytes {
            memory[at as usize] = (sent % 251) as u8;
            sent += 1;
        }
        ring.written = ring.written.wrapping_add(stretch.bytes);
        assert_eq!(ring.waiting(), Ok(sent - received));
        let stretch = ring.to_read(random.u64(..40_000)).expect("sane");
        for at in stretch.offset..stretch.offset + stretch.bytes {
            assert_eq!(memory[at as usize], (received % 251) as u8);
            received += 1;
        }
        ring.read = ring.read.wrapping_add(stretch.bytes);
    }
}

#[test]
fn fault_86_counts_that_make_no_sense_are_eio() {
    for (written, read) in [(0, 1), (CAPACITY + 1, 0), (u64::MAX, 0), (5, u64::MAX - CAPACITY)] {
        let ring = Ring { written, read, shape: 0 };
        assert_eq!(ring.waiting(), Err(Errno::EIO));
        assert_eq!((ring.to_read(1), ring.to_write(1)), (Err(Errno::EIO), Err(Errno::EIO)));
    }
}

#[test]
fn a_ring_holds_no_more_than_its_size() {
    let ring = |waiting, shape| Ring { written: waiting, read: 0, shape };
    assert_eq!((ring(0, CAPACITY - 8192).room(), ring(8192, CAPACITY - 8192).room()), (Ok(8192), Ok(0)));
    assert_eq!(ring(9000, CAPACITY - 8192).room(), Ok(0), "others wrote when it was larger");
    assert_eq!(ring(4096, CAPACITY - 8192).takes(ATOMIC), Ok(true));
    assert_eq!(ring(4097, CAPACITY - 8192).takes(ATOMIC), Ok(false));
    for nonsense in [CAPACITY, CAPACITY + 1, u64::MAX, u64::MAX << 32 | (MOST - 1)] {
        assert_eq!(ring(0, nonsense).size(), ATOMIC, "whatever stands there, what is written as one fits");
    }
}

#[test]
fn a_ring_has_the_size_that_its_shape_says() {
    let fresh = Ring { written: 0, read: 0, shape: 0 };
    for size in (12..=20).map(|power| 1 << power) {
        let shaped = Ring { shape: fresh.shape_of(size), ..fresh };
        assert_eq!((shaped.size(), shaped.capacity()), (size, size.max(CAPACITY)));
        assert_eq!(Ring { shape: shaped.shape_of(ATOMIC), ..fresh }.size(), ATOMIC);
        assert_eq!(Ring { shape: shaped.shape_of(ATOMIC), ..fresh }.capacity(), shaped.capacity());
    }
}

fn member(name: &[u8], mode: u32, contents: &[u8]) -> Vec<u8> {
    let fields = [1, mode, 0, 0, 1, 0, contents.len() as u32, 0, 0, 0, 0, name.len() as u32 + 1, 0];
    let mut bytes = b"070701".to_vec();
    fields.iter().for_each(|field| bytes.extend_from_slice(format!("{field:08x}").as_bytes()));
    bytes.extend_from_slice(name);
    bytes.push(0);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes.extend_from_slice(contents);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

#[test]
fn an_archive_gives_its_members() {
    let whole =
        [member(b"a", 0o100_644, b"hello"), member(b"b/c", 0o040_755, b""), member(b"TRAILER!!!", 0, b"")].concat();
    let names: Vec<_> = cpio::members(&whole).map(|member| member.expect("good").name.to_vec()).collect();
    assert_eq!(names, [b"a".to_vec(), b"b/c".to_vec()]);
    assert_eq!(cpio::find(&whole, b"a"), Some(&b"hello"[..]));
}

#[test]
fn a_damaged_archive_is_an_error_and_never_a_panic() {
    let whole = [member(b"a", 0o100_644, &[7; 300]), member(b"TRAILER!!!", 0, b"")].concat();
    for length in 0..whole.len() - 1 {
        let outcomes: Vec<_> = cpio::members(&whole[..length]).collect();
        assert!(outcomes.last().is_some_and(Result::is_err), "cut to {length}");
    }
    let mut random = fastrand::Rng::with_seed(9);
    for _ in 0..20_000 {
        let mut bad = whole.clone();
        bad[random.usize(..whole.len())] = random.u8(..);
        assert!(cpio::members(&bad).count() < 4);
    }
}

#[test]
fn a_command_is_read_record_by_record() {
    let read = command::parse(b"a/bin/sh\0a-c\0a\0ePATH=/bin\0w/tmp\0t1\0otrace=syscalls\0").expect("good");
    assert_eq!(read.arguments, [&b"/bin/sh"[..], b"-c", b""]);
    assert_eq!((read.directory, read.terminal, read.environment.len()), (&b"/tmp"[..], true, 1));
    for bad in [&b""[..], b"a/bin/sh", b"x1\0", b"\0", b"eA=1\0"] {
        assert!(command::parse(bad).is_err());
    }
}

#[test]
fn every_word_of_a_public_page_has_a_meaning() {
    for status in [Status::Exited(0), Status::Exited(255), Status::Killed(9), Status::Killed(64)] {
        assert_eq!(Status::from_word(status.to_word()), Some(status));
    }
    assert_eq!(Status::Exited(7).to_wait(), 0x700);
    assert_eq!(Status::Killed(11).to_wait(), 11);
    let mut random = fastrand::Rng::with_seed(4);
    assert!((0..1000).all(|_| Status::from_word(random.u64(..) | 1 << 63).is_some()));
    assert_eq!(Status::from_word(0), None);
}

#[test]
fn faults_are_delivered_first() {
    assert_eq!(set::first(set::bit(1) | set::bit(11)), Some(11));
    assert_eq!(set::first(set::bit(64)), Some(64));
    assert_eq!((set::first(0), set::bit(0), set::bit(65)), (None, 0, 0));
}

#[test]
fn fault_84_a_forged_frame_gives_no_more_than_user_flags() {
    let layout = frame::lay_out(0x7f_0000_1234, false, 1088).expect("it fits");
    assert!(
        layout.frame() % 16 == 8
            && layout.vectors().is_multiple_of(64)
            && layout.vectors() + 1088 <= 0x7f_0000_1234 - 128
    );
    assert!(layout.frame() + frame::FIXED <= layout.vectors() && layout.end() == 0x7f_0000_1234 - 128);
    let flags = frame::fit_flags(u64::MAX);
    assert_eq!(flags & 0x3000, 0, "no I/O privilege");
    assert_ne!(flags & 0x200, 0, "interrupts stay on");
    assert_eq!(flags >> 22, 0, "nothing beyond the identification flag");
    assert_eq!(frame::lay_out(100, false, 1000), None);
}

#[test]
fn a_frame_has_linuxs_layout() {
    use core::mem::offset_of;
    // `struct ucontext`: flags, link, stack, `struct sigcontext` (r8 at 40), mask; then `struct siginfo`.
    let in_context = |offset: usize| offset - frame::LINUX_CONTEXT;
    assert_eq!(in_context(offset_of!(Frame, stack)), 16);
    assert_eq!(in_context(offset_of!(Frame, registers)), 40);
    assert_eq!(in_context(offset_of!(Frame, segments)), 40 + 18 * 8);
    assert_eq!(in_context(offset_of!(Frame, address)), 40 + 22 * 8);
    assert_eq!(in_context(offset_of!(Frame, vectors)), 40 + 23 * 8);
    assert_eq!(in_context(offset_of!(Frame, mask)), 296);
    assert_eq!(in_context(offset_of!(Frame, information)), 304);
    let information = Information { signal: 11, code: -1, detail: 0xdead, value: 5 };
    assert_eq!(frame::information_words(&information), [11, 0xffff_ffff, 0xdead, 5]);
}

#[test]
fn structures_have_linuxs_bytes() {
    let status = NodeStatus {
        node: 7,
        mode_links: 0o100_644 | 3 << 32,
        owner: 5 | 6 << 32,
        size: 1000,
        device: 4 << 32 | 64,
        ..NodeStatus::default()
    };
    let stat = uapi::bytes(&uapi::stat(&status));
    assert_eq!((stat.len(), stat[8], stat[16], stat[48]), (144, 7, 3, 0xe8));
    assert_eq!(u32::from_le_bytes(stat[24..28].try_into().expect("4")), 0o100_644);
    assert_eq!((stat[28], stat[32]), (5, 6));
    let statx = uapi::bytes(&uapi::statx(&status));
    assert_eq!((statx.len(), statx[16], statx[20], statx[24], statx[32], statx[40]), (256, 3, 5, 6, 7, 0xe8));
    assert_eq!(u16::from_le_bytes([statx[28], statx[29]]), 0o100_644);
    assert_eq!((statx[128], statx[132]), (4, 64));
    for number in [(0, 0), (1, 3), (136, 0), (259, 70_000), (0xfff, 0xf_ffff)] {
        assert_eq!(uapi::device_parts(uapi::device(number)), number);
    }
    assert_eq!(uapi::names([b"Linux", b"x", b"", b"", b"", b""]).len(), 390);
}

#[test]
fn errors_fit_into_a_register() {
    assert_eq!(Errno::ENOENT.to_register() as i64, -2);
    assert_eq!(Errno::from_register((-38i64) as u64), Some(Errno::ENOSYS));
    assert_eq!((Errno::from_register(0), Errno::from_register((-4096i64) as u64)), (None, None));
    for error in abi::Error::ALL {
        assert!((1..=4095).contains(&Errno::from(*error).number()));
    }
}

#[test]
fn limits_are_raised_by_nobody_who_may_not() {
    use linux_abi::errno::Errno;
    use linux_raw_sys::general as linux;
    use unix_core::process::rlimits::{Rlimits, UNLIMITED};
    let mut limits = Rlimits::default();
    let cpu = u64::from(linux::RLIMIT_CPU);
    assert_eq!(limits.get(cpu), Ok([UNLIMITED, UNLIMITED]));
    assert_eq!(limits.set(cpu, [3, 2], true), Err(Errno::EINVAL));
    assert_eq!(limits.set(cpu, [1, 2], false), Ok(()));
    assert_eq!(limits.set(cpu, [1, 3], false), Err(Errno::EPERM));
    assert_eq!(limits.set(cpu, [1, 3], true), Ok(()));
    assert_eq!(limits.get(cpu), Ok([1, 3]));
    assert_eq!(limits.get(u64::from(linux::RLIM_NLIMITS)), Err(Errno::EINVAL));
    assert_eq!(limits.set(u64::from(linux::RLIMIT_NOFILE), [1, 1 << 30], true), Err(Errno::EPERM));
}

#[test]
fn usage_is_told_as_linux_tells_it() {
    use unix_core::process::rusage::Rusage;
    let used =
        Rusage { time: 3_500_000_000, system: 1_250_000_000, faults: 7, peak: 10, waits: 3, upcalls: 0, transfers: 0 };
    assert_eq!(Rusage::from_words(used.to_words()), used);
    let twice = used.with(Rusage { peak: 4, ..used });
    assert_eq!(
        twice,
        Rusage { time: 7_000_000_000, system: 2_500_000_000, faults: 14, peak: 10, waits: 6, upcalls: 0, transfers: 0 }
    );
    let bytes = used.to_bytes();
    let word = |index: usize| u64::from_le_bytes(bytes[index * 8..][..8].try_into().expect("eight bytes"));
    assert_eq!(bytes.len(), 144);
    assert_eq!([0, 1, 2, 3, 4, 8, 16].map(word), [2, 250_000, 1, 250_000, 40, 7, 3]);
    // A thread that claims more time in the library than it ran was there all the time.
    assert_eq!(Rusage { system: u64::MAX, ..used }.times(), [0, 3_500_000_000]);
}

#[test]
fn users_become_only_who_they_are() {
    use unix_core::process::credentials::{Change, Credentials, KEEP, ResIds};
    use vfs::supplementary_groups::Groups;
    let mut root = Credentials::default();
    assert_eq!(root.change_user(Change::Three, [1, 2, 3]), Ok(()));
    assert_eq!(root.user, ResIds { real: 1, effective: 2, saved: 3 });
    for seed in 0..2000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut one = root.clone();
        for _ in 0..10 {
            let number = |random: &mut fastrand::Rng| if random.bool() { random.u32(0..5) } else { KEEP };
            let wanted = [number(&mut random), number(&mut random), number(&mut random)];
            let change = [Change::One, Change::Two, Change::Three][random.usize(..3)];
            let before = one.user;
            if one.change_user(change, wanted).is_err() {
                assert_eq!(one.user, before, "seed {seed}");
            }
            // No process gets IDs other than these, user 0's least of all.
            let ResIds { real, effective, saved } = one.user;
            assert!([real, effective, saved].iter().all(|user| (1..=3).contains(user)), "seed {seed}: {:?}", one.user);
        }
    }
    assert_eq!(root.set_groups(Groups::default()), Err(Errno::EPERM));
    assert!(root.may_signal(2, 9) && root.may_signal(9, 1) && !root.may_signal(3, 3));
    assert_eq!(Credentials::default().change_user(Change::One, [KEEP; 3]), Err(Errno::EINVAL));
}

/// The numbers for files follow the effective ones, and change alone to what the process has (setfsuid(2)).
#[test]
fn who_acts_on_files() {
    use unix_core::process::capabilities::Missing;
    use unix_core::process::credentials::{Change, Credentials, KEEP, ResIds};
    let on_files = |one: &Credentials| (one.acting_on_files().uid, one.acting_on_files().gid);
    let mut one = Credentials::default();
    let change_user = |one: &mut Credentials, change, wanted| one.change_user(change, wanted).expect("it may");
    change_user(&mut one, Change::OnFiles, [1000, KEEP, KEEP]);
    one.change_group(Change::OnFiles, [50, KEEP, KEEP], true).expect("it may");
    assert_eq!((on_files(&one), one.acting().uid, one.user), ((1000, 50), 0, ResIds::default()));
    change_user(&mut one, Change::OnFiles, [KEEP; 3]);
    change_user(&mut one, Change::Three, [KEEP; 3]);
    assert_eq!(on_files(&one), (1000, 50));
    change_user(&mut one, Change::Three, [KEEP, 0, KEEP]);
    assert_eq!(on_files(&one), (0, 50));
    change_user(&mut one, Change::Three, [1, 2, 3]);
    for (wanted, becomes) in [(3, 3), (9, 3), (0, 3), (1, 1), (2, 2)] {
        change_user(&mut one, Change::OnFiles, [wanted, KEEP, KEEP]);
        assert_eq!(one.acting_on_files().uid, becomes);
    }
    change_user(&mut one, Change::OnFiles, [1, KEEP, KEEP]);
    let program = unix_core::process::credentials::Program { mode: 0o10_0755, user: 0, group: 0 };
    assert_eq!(on_files(&one.executing(program)), (2, 0));
    let incapable = &mut Credentials::default();
    incapable.renounce(Missing { effective: 1 << linux::CAP_SETUID, ..Missing::default() });
    incapable.change_user(Change::OnFiles, [7, KEEP, KEEP]).expect("nothing is wrong");
    assert_eq!(on_files(incapable), (0, 0));
}

/// The server believes a process that it gave up a capability, and no process that it has one again. A program gives
/// back what was not taken from programs.
#[test]
fn what_user_0_gave_up_comes_back_by_a_program_alone() {
    use unix_core::process::capabilities::Missing;
    use unix_core::process::credentials::{Change, Credentials, IdentityChange, KEEPABLE, Program, ResIds};
    let [kill, chown, setuid] = [linux::CAP_KILL, linux::CAP_CHOWN, linux::CAP_SETUID];
    let has = |one: &Credentials| [kill, chown, setuid].map(|capability| one.has(capability));
    let mut one = Credentials::default();
    one.renounce(Missing { effective: 1 << kill | 1 << chown, permitted: 1 << chown, gained: 1 << chown });
    assert_eq!(has(&one), [false, false, true]);
    one.renounce(Missing::default());
    assert_eq!(has(&one), [true, false, true], "what is permitted counts again");
    assert_eq!([one.real().has(kill), one.real().has(chown)], [true, false]);
    let plain = Program { mode: 0o10_0755, user: 0, group: 0 };
    assert_eq!(has(&one.executing(plain)), [true, false, true]);
    let mut weak = Credentials { no_new_privileges: true, ..Credentials::default() };
    weak.renounce(Missing { permitted: 1 << kill, ..Missing::default() });
    assert_eq!(has(&weak.executing(plain)), [false, true, true]);
    assert_eq!(has(&Credentials { no_new_privileges: false, ..weak.clone() }.executing(plain)), [true; 3]);
    weak.renounce(Missing { effective: 1 << setuid, ..Missing::default() });
    assert_eq!(weak.change_user(Change::Three, [5, 5, 5]), Err(Errno::EPERM));
    // Other users have none, and get those of programs by a set-id program.
    assert_eq!(one.change_user(Change::Three, [5, 5, 5]), Ok(()));
    assert_eq!((has(&one), one.acting().capabilities), ([false; 3], 0));
    one.user = ResIds { real: 5, effective: 5, saved: 5 };
    assert_eq!(has(&one.executing(Program { mode: 0o10_4755, ..plain })), [true, false, true]);
    let missing = Missing { effective: 7, permitted: 1 << 40, gained: 9 };
    let change = IdentityChange { which: 4, change: Change::Three, wanted: [1, 2, 3], kept: KEEPABLE, missing };
    assert_eq!(IdentityChange::from_words(change.to_words()), Some(change));
    assert_eq!(IdentityChange::from_words([4 << 16, 0, 0, 0, 0]), None);
}

/// FAULTS.md row 98: set-id bits change the credentials, and a process with such credentials is set apart from its
/// user.
#[test]
fn fault_98_who_executes_a_set_id_program() {
    use unix_core::process::credentials::{Change, Credentials, FIRST_APART, Program, ResIds};
    let all = |id: u32| ResIds { real: id, effective: id, saved: id };
    let user = Credentials { user: all(1000), group: all(100), ..Credentials::default() };
    let rooted = Program { mode: 0o10_4755, user: 0, group: 0 };
    let after = user.executing(rooted);
    assert_eq!((after.user, after.group), (ResIds { real: 1000, effective: 0, saved: 0 }, all(100)));
    assert!(user.gains(&after) && after.is_secure() && after.principal() == 0);
    let plain = Program { mode: 0o10_0755, ..rooted };
    assert!(user.executing(plain) == user && !user.gains(&user.executing(plain)));
    // The bit of a group that may not execute is no set-id bit.
    let locking = Program { mode: 0o10_2745, user: 0, group: 300 };
    assert!(user.executing(locking) == user);
    let grouped = user.executing(Program { mode: 0o10_2755, ..locking });
    assert_eq!((grouped.user, grouped.group), (all(1000), ResIds { real: 100, effective: 300, saved: 300 }));
    assert!(user.gains(&grouped));
    let renounced = Credentials { no_new_privileges: true, ..user.clone() };
    assert!(renounced.executing(rooted) == renounced);
    // Set apart, it holds a key of its own until it is its user's again and executes a program.
    let mut apart = Credentials { apart: FIRST_APART + 1, ..grouped };
    assert_eq!(apart.principal(), FIRST_APART + 1);
    assert_eq!(apart.change_group(Change::Three, [100; 3], true), Ok(()));
    assert_eq!((apart.principal(), apart.executing(plain).principal()), (FIRST_APART + 1, 1000));
    // User 0 takes any credentials by itself.
    let root = Credentials::default();
    let other = root.executing(Program { mode: 0o10_4755, user: 5, group: 0 });
    assert!(!root.gains(&other) && other.user == ResIds { real: 0, effective: 5, saved: 5 } && other.principal() == 0);
}

#[test]
fn pages_near_another_are_told_of_and_far_ones_left_out() {
    use unix_core::server::protocol::{NEAR_PAGES, near_pages, tell_near_pages};
    for seed in 0..500 {
        let mut random = fastrand::Rng::with_seed(seed);
        let page = random.u64(1..1 << 32);
        let reach = 1 << random.u32(1..20);
        let numbers: Vec<u64> = (0..random.usize(..=NEAR_PAGES))
            .map(|_| if random.bool() { 0 } else { page.saturating_sub(reach) + random.u64(..2 * reach) })
            .collect();
        let mut told = vec![99; numbers.len()];
        near_pages(page, tell_near_pages(page, &numbers), &mut told);
        for (number, told) in numbers.iter().zip(told) {
            let distance = *number as i64 - page as i64;
            let is_near = *number != 0 && distance != 0 && i16::try_from(distance).is_ok();
            assert_eq!(told, if is_near { *number } else { 0 }, "seed {seed}: {number} beside {page}");
        }
    }
}
