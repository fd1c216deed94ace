#include "exporter/symbols/mapped_files.h"

#include <utility>

#include "exporter/discovery/open_mapped.h"

namespace gpusnoop::symbols {
namespace {

class KernelMappedFiles : public MappedFiles {
public:
    explicit KernelMappedFiles(std::unique_ptr<kernel::MappingList> mappings)
        : mappings_(std::move(mappings)) {}

    Result<std::vector<kernel::Mapping>> list(std::uint32_t tgid) override {
        return mappings_->read(tgid);
    }
    Result<Fd> open_file(const kernel::Mapping &mapping) override {
        return discovery::open_mapped(mapping, *mappings_);
    }

private:
    std::unique_ptr<kernel::MappingList> mappings_;
};

}  // namespace

Result<std::unique_ptr<MappedFiles>> MappedFiles::open() {
    auto mappings = kernel::MappingList::open();
    if (!mappings) {
        return tl::unexpected(mappings.error());
    }
    return std::make_unique<KernelMappedFiles>(std::move(*mappings));
}

}  // namespace gpusnoop::symbols
