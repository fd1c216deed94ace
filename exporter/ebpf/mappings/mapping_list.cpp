#include "exporter/ebpf/mappings/mapping_list.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bpf/processes/mappings.h"
#include "exporter/base/text/text.h"
#include "exporter/ebpf/mappings/iterator.h"
#include "exporter/ebpf/maps/ring.h"
#include "exporter/ebpf/object.h"
#include "mappings.skel.h"

namespace gpusnoop::ebpf {

struct MappingList::Program {
    Skeleton<mappings_bpf> skeleton;
};

namespace {

Mapping to_mapping(const mapping_record &record) {
    return {record.tgid,
            record.tid,
            record.start,
            record.end,
            record.file_page * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)),
            {record.inode, record.device, record.generation, record.inode_address},
            record.is_program != 0,
            std::string(mapped_name({record.name, ::strnlen(record.name, sizeof(record.name))})),
            record.file_system,
            {record.bytes, std::chrono::nanoseconds(static_cast<std::int64_t>(record.modified_ns))},
            std::chrono::nanoseconds(static_cast<std::int64_t>(record.started_ns)),
            record.execs,
            {record.program_inode, record.program_device, record.program_generation},
            record.is_mounted_by_user != 0};
}

// A mapping of a file that is never read through: truncating the file cannot crash the exporter.
class UntouchedMapping {
public:
    explicit UntouchedMapping(int fd)
        : address_(::mmap(nullptr, 1, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0)) {}
    ~UntouchedMapping() {
        if (address_ != MAP_FAILED) {
            ::munmap(address_, 1);
        }
    }
    UntouchedMapping(const UntouchedMapping &) = delete;
    UntouchedMapping &operator=(const UntouchedMapping &) = delete;

    [[nodiscard]] bool valid() const { return address_ != MAP_FAILED; }
    [[nodiscard]] std::uint64_t address() const {
        return reinterpret_cast<std::uint64_t>(address_);
    }

private:
    void *address_;
};

}  // namespace

std::string_view mapped_name(std::string_view path) {
    constexpr std::string_view deleted = " (deleted)";
    constexpr std::string_view in_memory = "memfd:";
    if (path.ends_with(deleted)) {
        path.remove_suffix(deleted.size());
    }
    path = last_part(path);
    if (path.starts_with(in_memory)) {
        path.remove_prefix(in_memory.size());
    }
    return path;
}

MappingList::MappingList(std::unique_ptr<Program> program) : program_(std::move(program)) {}
MappingList::~MappingList() = default;

Result<std::unique_ptr<MappingList>> MappingList::open() {
    auto program = std::make_unique<Program>();
    program->skeleton.reset(mappings_bpf::open_and_load());
    if (!program->skeleton) {
        return fail_errno("load the BPF program that lists mappings");
    }
    std::unique_ptr<MappingList> list(new MappingList(std::move(program)));
    list->can_list_one_ =
        can_iterate_over_one(bpf_program__fd(list->program_->skeleton->progs.mapping_list));
    return list;
}

Result<Fd> MappingList::iterate(std::optional<std::uint32_t> tgid) {
    const std::uint32_t only = tgid.value_or(0);
    program_->skeleton->bss->only_tgid = static_cast<int>(only);
    const int program = bpf_program__fd(program_->skeleton->progs.mapping_list);
    const auto link = only == 0 ? link_iterator(program) : link_iterator_of(program, only);
    if (!link) {
        return fail_in("list mappings", link.error());
    }
    Fd iterator(bpf_iter_create(link->get()));
    if (!iterator) {
        return fail_errno("list mappings");
    }
    return iterator;
}

std::size_t MappingList::take(std::span<const std::byte> bytes, std::vector<Mapping> &mappings) {
    std::size_t taken = 0;
    for (; bytes.size() - taken >= sizeof(mapping_record); taken += sizeof(mapping_record)) {
        mappings.push_back(
            to_mapping(*decode<mapping_record>(bytes.subspan(taken, sizeof(mapping_record)))));
    }
    return taken;
}

Result<std::vector<Mapping>> MappingList::read(std::uint32_t tgid) {
    program_->skeleton->bss->only_tgid = static_cast<int>(tgid);
    const auto link =
        link_iterator_of(bpf_program__fd(program_->skeleton->progs.mapping_list), tgid);
    if (!link) {
        return fail_in("list mappings", link.error());
    }
    std::vector<Mapping> mappings;
    const auto read = read_iterator(link->get(), sizeof(mapping_record),
                                    [&](auto bytes) { take(bytes, mappings); });
    if (!read) {
        return tl::unexpected(read.error());
    }
    return mappings;
}

Result<std::size_t> MappingList::threads_in_probed_calls(std::uint32_t tgid) {
    program_->skeleton->bss->only_tgid = static_cast<int>(tgid);
    const auto link =
        link_iterator_of(bpf_program__fd(program_->skeleton->progs.mapping_threads), tgid);
    if (!link) {
        return fail_in("list threads in calls", link.error());
    }
    std::size_t threads = 0;
    const auto read =
        read_iterator(link->get(), sizeof(probed_thread_record), [&](auto) { threads++; });
    if (!read) {
        return tl::unexpected(read.error());
    }
    return threads;
}

Result<FileId> MappingList::identify(int fd) {
    const UntouchedMapping mapped(fd);
    if (!mapped.valid()) {
        return fail_errno("map a file");
    }
    return identify(static_cast<std::uint32_t>(::getpid()), mapped.address());
}

Result<FileId> MappingList::identify(std::uint32_t tgid, std::uint64_t address) {
    return find(tgid, address).map([](const Mapping &mapping) { return mapping.file; });
}

Result<Mapping> MappingList::find(std::uint32_t tgid, std::uint64_t address) {
    program_->skeleton->bss->list_readers = 1;
    const auto own = read(tgid);
    program_->skeleton->bss->list_readers = 0;
    if (!own) {
        return tl::unexpected(own.error());
    }
    for (const Mapping &mapping : *own) {
        if (address >= mapping.start && address < mapping.end) {
            return mapping;
        }
    }
    return fail(
        "our own mapping is not listed: is this another pid namespace than the kernel's first?");
}

}  // namespace gpusnoop::ebpf
