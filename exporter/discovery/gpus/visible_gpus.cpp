#include "exporter/discovery/gpus/visible_gpus.h"

#include <strings.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <iterator>
#include <span>
#include <utility>

#include "exporter/discovery/gpus/environment.h"

namespace gpusnoop::discovery {

namespace {

using Ordinals = std::vector<std::optional<unsigned>>;

constexpr std::size_t max_entries = 256;
constexpr std::size_t uuid_size = 40;  // GPU- and 36 characters
constexpr std::string_view blanks = " \t\n\v\f\r";

// Takes the text up to `separator`, and the separator, off the front of `rest`.
std::string_view take_until(std::string_view &rest, char separator) {
    const std::string_view part = rest.substr(0, rest.find(separator));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    return part;
}

// Whether the whole environment is as exec left it: a title written over it leaves NULs behind.
bool is_intact(std::string_view environment) {
    if (!environment.empty() && !environment.ends_with('\0')) {
        return false;
    }
    while (!environment.empty()) {
        const std::size_t equals = take_until(environment, '\0').find('=');
        if (equals == std::string_view::npos || equals == 0) {
            return false;
        }
    }
    return true;
}

bool is_number(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool starts_with_ignoring_case(std::string_view text, std::string_view start) {
    return text.size() >= start.size() &&
           ::strncasecmp(text.data(), start.data(), start.size()) == 0;
}

// Reads the list of CUDA_VISIBLE_DEVICES. Documented: the list ends before the first invalid entry,
// and the start of a UUID is enough. As PyTorch reads it: a device named twice leaves no devices,
// numbers are read as by strtoul, and all entries are of the first one's kind.
class ListReader {
public:
    // `numbers_known`: the numbers count `seen` in its order.
    ListReader(const std::vector<Gpu> &seen, bool numbers_known, const Minors &opened_instances)
        : seen_(seen), numbers_known_(numbers_known), opened_instances_(opened_instances) {}

    Ordinals read(std::string_view list) {
        const Kind kind = kind_of(list);
        for (bool more = true; more;) {
            more = list.find(',') != std::string_view::npos;
            const std::string_view text = take_until(list, ',');
            const bool comparable = text.empty() || kind_of(text) == kind;
            const Entry entry = comparable && entries_.size() < max_entries
                                    ? entry_of(kind, text)
                                    : Entry{Validity::unsure, nullptr, text};
            if (entry.validity == Validity::invalid) {
                break;
            }
            if (is_repeated(kind, entry)) {
                return {};
            }
            entries_.push_back(entry);
            more = more && entry.validity == Validity::valid;
        }
        return ordinals(kind);
    }

private:
    enum class Kind { number, gpu, mig };

    enum class Validity {
        valid,
        invalid,  // the list ends before it
        unsure,   // CUDA may end the list before it or accept it
    };

    struct Entry {
        Validity validity;
        const Gpu *gpu;  // null: unknown which
        std::string_view text;
    };

    static Kind kind_of(std::string_view text) {
        if (text.starts_with("GPU-")) {
            return Kind::gpu;
        }
        return text.starts_with("MIG-") ? Kind::mig : Kind::number;
    }

    [[nodiscard]] Entry entry_of(Kind kind, std::string_view text) const {
        if (kind == Kind::number || text.empty()) {
            return numbered(text);
        }
        if (text.find_first_of(blanks) != std::string_view::npos) {
            return {Validity::unsure, nullptr, text};
        }
        if (kind == Kind::gpu) {
            return with_uuid(text, text);
        }
        return text.starts_with("MIG-GPU-") ? instance_of_gpu(text) : instance(text);
    }

    [[nodiscard]] Entry numbered(std::string_view text) const {
        std::string_view digits = text;
        digits.remove_prefix(std::min(digits.find_first_not_of(blanks), digits.size()));
        if (digits.starts_with('+')) {
            digits.remove_prefix(1);
        }
        std::size_t number = 0;
        const auto error = std::from_chars(digits.data(), digits.data() + digits.size(), number).ec;
        if (error != std::errc{} || number >= seen_.size()) {
            return {Validity::invalid, nullptr, text};
        }
        return {Validity::valid, &seen_[number], text};
    }

    // A whole UUID, or a start of it that no other GPU has.
    [[nodiscard]] Entry with_uuid(std::string_view uuid, std::string_view text) const {
        std::vector<const Gpu *> matching;
        std::vector<const Gpu *> unreadable;
        for (const Gpu &gpu : seen_) {
            if (gpu.uuid.empty()) {
                unreadable.push_back(&gpu);
            } else if (starts_with_ignoring_case(gpu.uuid, uuid)) {
                matching.push_back(&gpu);
            }
        }
        if (matching.size() > 1 || (matching.empty() && unreadable.empty())) {
            return {Validity::invalid, nullptr, text};
        }
        if (matching.empty() && unreadable.size() == 1) {
            return {Validity::valid, unreadable.front(), text};  // or the list ends here
        }
        if (matching.empty() || (uuid.size() < uuid_size && !unreadable.empty())) {
            return {Validity::unsure, nullptr, text};  // it may be the start of an unreadable UUID
        }
        return {Validity::valid, matching.front(), text};
    }

    // MIG-GPU-<uuid>/<GPU instance>/<compute instance>, of drivers before 470.
    [[nodiscard]] Entry instance_of_gpu(std::string_view text) const {
        std::string_view rest = text.substr(4);
        const std::string_view uuid = take_until(rest, '/');
        const std::string_view instance = take_until(rest, '/');
        if (!is_number(instance) || !is_number(rest)) {
            return {Validity::unsure, nullptr, text};
        }
        Entry entry = with_uuid(uuid, text);
        if (entry.gpu != nullptr && !may_have_instance(*entry.gpu)) {
            entry.gpu = nullptr;
        }
        return entry;
    }

    // MIG-<uuid>: the UUID does not name the GPU, which is known only if the process has opened
    // instances of one GPU, or if only one has instances.
    [[nodiscard]] Entry instance(std::string_view text) const {
        const auto possible = [&](const Gpu &gpu) {
            return may_have_instance(gpu) && (gpu.mig || !opened_instances_.empty());
        };
        const auto first = std::ranges::find_if(seen_, possible);
        const bool single = std::ranges::count_if(seen_, possible) == 1;
        return {Validity::valid, single ? &*first : nullptr, text};
    }

    [[nodiscard]] bool may_have_instance(const Gpu &gpu) const {
        return opened_instances_.empty() || opened_instances_.contains(gpu.minor);
    }

    // Instances of one GPU differ only in their text.
    [[nodiscard]] bool is_repeated(Kind kind, const Entry &entry) const {
        return std::ranges::any_of(entries_, [&](const Entry &other) {
            return kind == Kind::mig || entry.gpu == nullptr ? other.text == entry.text
                                                             : other.gpu == entry.gpu;
        });
    }

    [[nodiscard]] Ordinals ordinals(Kind kind) const {
        // If one of the GPUs is divided, CUDA may leave out others.
        const bool all_there =
            kind != Kind::gpu || entries_.size() == 1 || std::ranges::none_of(seen_, &Gpu::mig);
        const bool known = all_there && (kind != Kind::number || numbers_known_);
        Ordinals result;
        for (const Entry &entry : entries_) {
            result.push_back(known && entry.gpu != nullptr ? std::optional(entry.gpu->index)
                                                           : std::nullopt);
        }
        return result;
    }

    const std::vector<Gpu> &seen_;
    const bool numbers_known_;
    const Minors &opened_instances_;
    std::vector<Entry> entries_;
};

// Whether CUDA counts these GPUs in the order of their addresses. By default it begins with the
// fastest, by a rule that is not documented; equal GPUs stay in that order.
bool in_order(const std::vector<Gpu> &seen, bool by_address) {
    const auto same_model = [&](const Gpu &gpu) {
        return !gpu.name.empty() && gpu.name == seen.front().name;
    };
    return std::ranges::none_of(seen, &Gpu::mig) &&
           (by_address || std::ranges::all_of(seen, same_model));
}

// CUDA enumerates one instance and no other device, if it may open any. If all GPUs are divided, it
// is one that the process has opened. Null: that is not known.
const Gpu *gpu_of_instance(const std::vector<Gpu> &seen, const Minors &opened_instances) {
    if (opened_instances.size() != 1 || !std::ranges::all_of(seen, &Gpu::mig)) {
        return nullptr;
    }
    const auto found = std::ranges::find(seen, *opened_instances.begin(), &Gpu::minor);
    return found == seen.end() ? nullptr : &*found;
}

std::vector<Gpu> those_in(const Minors &minors, const std::vector<Gpu> &gpus) {
    std::vector<Gpu> found;
    std::ranges::copy_if(gpus, std::back_inserter(found),
                         [&](const Gpu &gpu) { return minors.contains(gpu.minor); });
    return found;
}

// Slurm's numbers are those of the device nodes. The job can change them, and so its own label.
std::optional<Minors> slurm_gpus_in(std::string_view environment) {
    for (const std::string_view name : {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"}) {
        if (const auto list = variable(environment, name)) {
            return slurm_minors(*list);
        }
    }
    return std::nullopt;
}

// Too long, or without a byte: a process that is ending has no environment, and some programs have
// none.
bool is_usable(const Result<std::string> &environment) {
    return environment && !environment->empty() && environment->size() <= max_environment_bytes;
}

}  // namespace

VisibleGpus VisibleGpus::of(std::string_view environment, const std::vector<Gpu> &seen,
                            const Minors &opened_instances) {
    const auto list = variable(environment, "CUDA_VISIBLE_DEVICES");
    if (!list && !is_intact(environment)) {
        return of_unknown(seen);
    }
    const bool numbers_known =
        in_order(seen, variable(environment, "CUDA_DEVICE_ORDER") == "PCI_BUS_ID");
    VisibleGpus visible;
    Ordinals &ordinals = visible.ordinals_;
    if (list) {
        ordinals = ListReader(seen, numbers_known, opened_instances).read(*list);
    } else {
        for (const Gpu &gpu : seen) {
            ordinals.push_back(numbers_known ? std::optional(gpu.index) : std::nullopt);
        }
    }
    // Whatever the entries mean, only this GPU is possible.
    if (seen.size() == 1) {
        std::fill(ordinals.begin(), ordinals.end(), seen.front().index);
    } else if (const Gpu *const gpu = gpu_of_instance(seen, opened_instances);
               gpu != nullptr && !ordinals.empty()) {
        ordinals = {gpu->index};
    }
    return visible;
}

VisibleGpus VisibleGpus::of_unknown(const std::vector<Gpu> &seen) {
    VisibleGpus visible;
    if (seen.size() == 1) {
        visible.ordinals_.emplace_back(seen.front().index);
    }
    return visible;
}

std::optional<unsigned> VisibleGpus::host_index(unsigned ordinal) const {
    return ordinal < ordinals_.size() ? ordinals_[ordinal] : std::nullopt;
}

std::optional<unsigned> VisibleGpus::only() const {
    const bool same = std::ranges::all_of(
        ordinals_, [&](const auto &index) { return index == ordinals_.front(); });
    return same && !ordinals_.empty() ? ordinals_.front() : std::nullopt;
}

Minors VisibleGpus::minors_of(const std::vector<Gpu> &gpus) const {
    Minors minors;
    for (const Gpu &gpu : gpus) {
        if (std::ranges::find(ordinals_, std::optional(gpu.index)) != ordinals_.end()) {
            minors.insert(gpu.minor);
        }
    }
    return minors;
}

VisibleGpus VisibleGpus::of(std::string_view environment, const GpuEvidence &evidence,
                            const std::vector<Gpu> &of_node) {
    const auto of_these = [&](const std::vector<Gpu> &seen) {
        return of(environment, seen, evidence.opened_instances);
    };
    const bool is_divided = std::ranges::any_of(evidence.existing, &Gpu::mig);
    const bool has_own = evidence.existing.size() < of_node.size();  // as a container
    if (evidence.listed || has_own || evidence.existing.size() <= 1) {
        VisibleGpus visible = of_these(
            evidence.listed ? those_in(*evidence.listed, evidence.existing) : evidence.existing);
        visible.is_settled_ = !is_divided;
        return visible;
    }
    std::optional<Minors> slurm = slurm_gpus_in(environment);
    const bool is_job = slurm || variable(environment, "SLURM_JOB_ID");
    if (slurm && (is_divided || !std::ranges::includes(*slurm, evidence.opened))) {
        slurm.reset();  // it counts instances, or does not confine the job to these
    }
    // CUDA opens GPUs in their order, so the first of them may be all that it has opened so far.
    const std::vector<Gpu> opened = those_in(evidence.opened, evidence.existing);
    const bool opened_tells =
        !opened.empty() &&
        (evidence.is_hidden ||
         !std::ranges::equal(opened, std::span(evidence.existing).first(opened.size())));
    if (!slurm && !opened_tells) {
        // Whether it is confined to some cannot be seen.
        return evidence.is_hidden || (is_job && opened.empty()) ? VisibleGpus()
                                                                : of_these(evidence.existing);
    }
    std::vector<VisibleGpus> possible = {of_these(evidence.existing)};
    if (slurm) {
        possible.push_back(of_these(those_in(*slurm, evidence.existing)));
    }
    if (opened_tells) {
        possible.push_back(of_these(opened));
    }
    std::erase_if(possible, [&](const VisibleGpus &visible) {
        const Minors minors = visible.minors_of(evidence.existing);
        const auto is_open = [&](int minor) { return evidence.opened.contains(minor); };
        return visible.ordinals_.empty() || (slurm && !std::ranges::includes(*slurm, minors)) ||
               (opened_tells && !minors.empty() && std::ranges::none_of(minors, is_open));
    });
    if (possible.empty()) {
        return {};
    }
    VisibleGpus result = possible.front();
    for (const VisibleGpus &other : possible) {
        for (unsigned ordinal = 0; ordinal < result.ordinals_.size(); ordinal++) {
            if (other.host_index(ordinal) != result.host_index(ordinal)) {
                result.ordinals_[ordinal].reset();
            }
        }
    }
    return result;
}

Result<VisibleGpus> visible_gpus_of(processes::ProcessReader &reader, std::uint32_t tgid,
                                    const std::vector<Gpu> &gpus, const GpuSources &sources) {
    const auto is_timeout = [](const auto &result) {
        return !result && result.error().code == ETIMEDOUT;
    };
    const auto evidence = gpu_evidence_of(reader, tgid, gpus, sources);
    if (is_timeout(evidence)) {
        return tl::unexpected(evidence.error());
    }
    if (!evidence) {
        return VisibleGpus::of_unknown(gpus);
    }
    const auto environment = reader.read_text(
        sources.proc + "/" + std::to_string(tgid) + "/environ", max_environment_bytes + 1);
    if (is_timeout(environment)) {
        return tl::unexpected(environment.error());
    }
    return is_usable(environment)
               ? VisibleGpus::of(*environment, *evidence, gpus)
               : VisibleGpus::of_unknown(evidence->listed
                                             ? those_in(*evidence->listed, evidence->existing)
                                             : evidence->existing);
}

}  // namespace gpusnoop::discovery
