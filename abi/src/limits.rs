//! Every limit of the interface, in one place, with its relations asserted.

/// Bytes in a page.
pub const PAGE_SIZE: u64 = 4096;
/// CPUs that the kernel starts at most; others stay parked.
pub const CPUS: usize = 16;
/// Positions in the slice vector of one CPU.
pub const SLICES_PER_CPU: usize = 1024;
/// Length of a time slice in nanoseconds, until `machine_set`.
pub const QUANTUM: u64 = 1_000_000;
/// Time an environment has, after its slice ended, to save its state and yield, in nanoseconds, until `machine_set`.
pub const SAVE_WINDOW: u64 = 50_000;
/// Time a critical section may run past the end of a slice before it counts as an excess, in nanoseconds.
pub const CRITICAL_SECTION_GRACE: u64 = 200_000;
/// Excesses after which an environment is destroyed: a quarter of a second that it ran without once giving way.
/// Until `machine_set`.
pub const EXCESS_LIMIT: u64 = 256;
/// Time between the emergency upcall and the first page that is taken after it, in nanoseconds, until `machine_set`.
pub const EMERGENCY_GRACE: u64 = 5_000_000;
/// Pages that the kernel asks an environment for when none is free, until `machine_set`.
pub const SHORTAGE_PAGES: u64 = 32;
/// Time that the environment has to give them, in nanoseconds, until `machine_set`.
pub const SHORTAGE_DEADLINE: u64 = 10_000_000;
/// 64-bit components of a capability name.
pub const NAME_COMPONENTS: usize = 7;
/// Keys in the ring of an environment.
pub const KEYS: usize = 44;
/// Devices that the kernel keeps a record of.
pub const DEVICES: usize = 16;
/// Rows of one `device_submit` call.
pub const TRANSFER_ROWS: usize = 16;
/// Pieces of pages in one request to a device.
pub const TRANSFER_PIECES: usize = 16;
/// Device pins of the requests of one environment: one for each piece and one for each status word.
pub const DEVICE_PINS: u64 = 256;
/// Nanoseconds that a device has for a request. Then it is reset.
pub const TRANSFER_PATIENCE: u64 = 30_000_000_000;
/// The same once an environment under enforcement waits for it: from the deadline of the revocation on.
pub const TRANSFER_PATIENCE_ENFORCED: u64 = 1_000_000_000;
/// Interfaces: the machine itself, and network cards.
pub const INTERFACES: usize = 8;
/// Pages of memory for each page of the code arena, in a machine with a network.
pub const PAGES_PER_CODE_PAGE: u64 = 128;
/// Pages of the code arena at least and at most, powers of two.
pub const CODE_PAGES_LEAST: u64 = 128;
/// See [`CODE_PAGES_LEAST`]. It has more where the kernel's command line asks for more filters.
pub const CODE_PAGES: u64 = 2048;
/// Filters for each page of the code arena.
pub const FILTERS_PER_CODE_PAGE: u64 = 2;
/// Filters that lie in one another at most.
pub const FILTER_DEPTH: u64 = 8;
/// Atoms of one filter.
pub const FILTER_ATOMS: usize = 128;
/// Owners of filters that receive something, at one time.
pub const FILTER_OWNERS: usize = 64;
/// Tests that a frame is put to at most, whatever filters there are.
pub const FILTER_SHAPES: usize = 256;
/// Receive slots of a packet ring, at least.
pub const RECEIVE_SLOTS_LEAST: u64 = 8;
/// Receive slots of a packet ring, at most.
pub const RECEIVE_SLOTS: u64 = 160;
/// Send slots of a packet ring, at most.
pub const SEND_SLOTS: u64 = 64;
/// Bytes of the header of a frame to be sent, at least.
pub const SEND_HEADER_LEAST: usize = 14;
/// Bytes of the header of a frame to be sent, at most.
pub const SEND_HEADER: usize = 128;
/// Segments of a frame to be sent, beyond its header.
pub const SEND_SEGMENTS: usize = 43;
/// Frames that one `packet_send` takes.
pub const SEND_ROWS: u64 = 16;
/// Pages of memory for each frame that caches a block, in a machine with a disk.
pub const PAGES_PER_FRAME: u64 = 128;
/// Frames at least and at most, multiples of 64.
pub const FRAMES_LEAST: u64 = 64;
/// See [`FRAMES_LEAST`].
pub const FRAMES: u64 = 512;
/// Regions of 64 MiB of the largest volume.
pub const REGIONS: u64 = 256;
/// Trees of a volume that are mounted or unattached.
pub const TREES: usize = 128;
/// Records of held blocks.
pub const LEDGER_RECORDS: usize = 64;
/// Frames that a transaction shows.
pub const TRANSACTION_SHOWN: usize = 16;
/// Ranges that a transaction changes.
pub const TRANSACTION_CHANGES: usize = 8;
/// Ranges that a transaction declares.
pub const TRANSACTION_DECLARED: usize = 8;
/// Bytes that a transaction changes.
pub const TRANSACTION_BYTES: usize = 512;
/// Blocks that a transaction allocates and frees.
pub const TRANSACTION_BLOCKS: u64 = 128;
/// Entries of an access list.
pub const ACCESS_LIST_ENTRIES: usize = 62;
/// Pages in the private part of an environment area, at least.
pub const PRIVATE_PAGES_LEAST: usize = 4;
/// Pages in the private part of an environment area, at most.
pub const PRIVATE_PAGES: usize = 16;
/// Terms of a wakeup predicate.
pub const PREDICATE_TERMS: usize = 16;
/// Rows of one `batch` call.
pub const BATCH_ROWS: usize = 64;
/// Rows of one `page_map` call.
pub const MAP_ROWS: usize = 128;
/// Software regions in one page.
pub const REGIONS_PER_PAGE: usize = 15;
/// Bytes of data in one software region.
pub const REGION_BYTES: usize = 192;
/// Entries of a repossession vector.
pub const REPOSSESSION_ENTRIES: usize = 120;
/// Entries of the list of pages to take first.
pub const TAKE_FIRST_ENTRIES: usize = 128;
/// Bytes that one `entropy_read` gives at most.
pub const ENTROPY_BYTES: usize = 256;
/// Instructions that one kernel entry executes at most.
pub const ENTRY_INSTRUCTIONS: u64 = 20_000;
/// Size of the environment table is memory divided by this many pages, as a power of two within the next two limits.
pub const PAGES_PER_ENVIRONMENT: u64 = 32;
/// Fewest slots of the environment table.
pub const ENVIRONMENTS_LEAST: u64 = 512;
/// Most slots of the environment table.
pub const ENVIRONMENTS: u64 = 16384;

const _: () = assert!(SLICES_PER_CPU.is_power_of_two());
const _: () = assert!(ENVIRONMENTS.is_power_of_two() && ENVIRONMENTS_LEAST.is_power_of_two());
// Objects of the kernel share their page with a header of at most 64 bytes.
const _: () = assert!((KEYS + 1) * 64 <= PAGE_SIZE as usize);
const _: () = assert!((ACCESS_LIST_ENTRIES + 1) * 64 <= PAGE_SIZE as usize);
const _: () = assert!(REGIONS_PER_PAGE * (REGION_BYTES + 64) + 64 <= PAGE_SIZE as usize);
