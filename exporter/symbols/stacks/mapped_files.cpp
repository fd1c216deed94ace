#include "exporter/symbols/stacks/mapped_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "exporter/processes/mapping_reader.h"
#include "exporter/symbols/stacks/patient_reader.h"

namespace gpusnoop::symbols {
namespace {

std::string program_of(std::uint32_t tgid) {
    return "/proc/" + std::to_string(tgid) + "/exe";
}

// What executed a program does not tell the address of its inode.
bool is_same(const FileId &one, const FileId &other) {
    return one.inode == other.inode && one.device == other.device &&
           one.generation == other.generation;
}

class KernelMappedFiles : public MappedFiles {
public:
    explicit KernelMappedFiles(std::unique_ptr<ebpf::MappingList> mappings)
        : list_(std::move(mappings)), mappings_(*list_), opener_(*list_) {}

    void set_limit(const WorkLimit &limit) override {
        limit_ = limit;
        reader_.set_limit(limit);
    }
    Result<std::vector<ebpf::Mapping>> list(std::uint32_t tgid) override {
        return mappings_.read(tgid);
    }
    Result<processes::MappedFile> open_file(const ebpf::Mapping &mapping) override {
        return opener_.open(mapping, mappings_.path_of(mapping), ForeignReader::Part::symbols,
                            limit_);
    }
    Result<std::string> path_of(const ebpf::Mapping &mapping) override {
        return mappings_.path_of(mapping);
    }
    Result<processes::MappedFile> open_program(std::uint32_t tgid, const FileId &id,
                                               std::uint64_t bytes) override {
        return reader_.open_program(
            tgid, program_of(tgid), id.inode, bytes,
            [&](std::uint32_t child, const ForeignReader::Answer &opened) -> Result<bool> {
                const auto mapped = list_->find(child, opened.number);
                if (!mapped) {
                    return tl::unexpected(mapped.error());
                }
                if (!is_same(mapped->file, id) && !is_below(tgid, id, mapped->file)) {
                    return fail("it runs another program", ESRCH);
                }
                return processes::always_answers(*mapped);
            });
    }
    bool runs_program(std::uint32_t tgid, const FileId &id, std::uint64_t bytes) override {
        return reader_.is_program(tgid, program_of(tgid), id.inode, bytes);
    }
    Result<std::string> read_memory(std::uint32_t tgid, std::uint64_t address,
                                    std::size_t size) override {
        return reader_.read_memory(tgid, address, size);
    }
    Result<Fd> copy_text(std::uint32_t tgid, const std::string &path) override {
        return reader_.copy_text(tgid, path);
    }
    void rest() override {
        mappings_.rest(std::chrono::seconds(0));
        opener_.rest(std::chrono::seconds(0));
        reader_.rest();
    }

private:
    // Only the kernel can tell which file is below a program on an overlay.
    bool is_below(std::uint32_t tgid, const FileId &program, const FileId &file) {
        const auto mappings = mappings_.read(tgid);
        return mappings && std::ranges::any_of(*mappings, [&](const ebpf::Mapping &mapping) {
                   return mapping.is_program && is_same(mapping.program, program) &&
                          mapping.file == file;
               });
    }

    std::unique_ptr<ebpf::MappingList> list_;
    processes::MappingReader mappings_;
    processes::FileOpener opener_;
    PatientReader reader_;
    WorkLimit limit_;
};

}  // namespace

Result<processes::MappedFile> MappedFiles::open_program(std::uint32_t tgid, const FileId &id,
                                                        std::uint64_t bytes) {
    Fd file(::open(program_of(tgid).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status{};
    if (!file || ::fstat(file.get(), &status) != 0) {
        return fail_errno("open a program");
    }
    if (status.st_ino != id.inode || static_cast<std::uint64_t>(status.st_size) != bytes) {
        return fail("it runs another program", ESRCH);
    }
    return processes::MappedFile{std::move(file), {}};
}

Result<std::string> MappedFiles::read_memory(std::uint32_t tgid, std::uint64_t address,
                                             std::size_t size) {
    return read_memory_at_once(tgid, address, size);
}

Result<std::unique_ptr<MappedFiles>> MappedFiles::open() {
    auto mappings = ebpf::MappingList::open();
    if (!mappings) {
        return tl::unexpected(mappings.error());
    }
    return std::make_unique<KernelMappedFiles>(std::move(*mappings));
}

}  // namespace gpusnoop::symbols
