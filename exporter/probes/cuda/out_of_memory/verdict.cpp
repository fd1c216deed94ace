#include "exporter/probes/cuda/out_of_memory/verdict.h"

#include <algorithm>

#include "exporter/base/text/quantity_text.h"

namespace gpusnoop::probes {

namespace {

// The driver rounds up, and keeps a little for itself.
constexpr std::uint64_t with_slack(std::uint64_t requested) {
    constexpr std::uint64_t granule = std::uint64_t{2} << 20U;
    return requested + requested / 8 + granule;
}

bool knows_request(const OutOfMemory &event) {
    return event.requested && (!event.may_be_piece || event.torch);
}

// That PyTorch has reserved and does not use, after it has freed what it could.
std::uint64_t unused_of(const TorchFigures &torch) {
    return torch.reserved - std::min(torch.reserved, torch.allocated);
}

// Of the memory that the GPU has, whoever holds most of it.
OomVerdict largest_holder(const OutOfMemory &event, std::uint64_t total) {
    const std::uint64_t own = event.asker.on_gpu();
    const std::uint64_t requested = event.requested.value_or(0);
    if (const auto unseen = event.not_accounted_for()) {
        const std::uint64_t most = std::max(own, event.others_bytes);
        if (*unseen > most) {
            const std::uint64_t unmanaged = *unseen - std::min(*unseen, event.managed_bytes);
            return unmanaged > most && unmanaged >= total / 10 ? OomVerdict::not_accounted_for
                                                               : OomVerdict::unknown;
        }
    } else if (own + event.others_bytes + requested < total - total / 10) {
        return OomVerdict::unknown;  // what is seen does not explain it
    }
    if (own == 0 && event.others_bytes == 0) {
        return OomVerdict::unknown;
    }
    // More was free than anybody holds, and how much was asked for is not known.
    if (!knows_request(event) && event.memory->is_of_that_moment() &&
        event.memory->free > std::max(own, event.others_bytes)) {
        return OomVerdict::unknown;
    }
    return own >= event.others_bytes ? OomVerdict::own_use : OomVerdict::neighbor;
}

std::string gpu_text(const OutOfMemory &event) {
    return event.gpu == "unknown" ? "a GPU that is not known" : "GPU " + event.gpu;
}

std::string request_text(const OutOfMemory &event) {
    std::string text = program_of(event.asker.names) + " (pid " + std::to_string(event.asker.pid);
    text += event.requested ? std::string(") asked for ") +
                                  (event.may_be_piece && !event.torch ? "at least " : "") +
                                  bytes_text(*event.requested)
                            : ") ran out of memory in " + event.function;
    return text + " on " + gpu_text(event);
}

// "61.0 GiB of 80.0 GiB", if it is known how much there is.
std::string share_text(std::uint64_t bytes, const OutOfMemory &event) {
    return bytes_text(bytes) + (event.memory ? " of " + bytes_text(event.memory->total) : "");
}

std::string owner_text(const MemoryHolder &other, const MemoryHolder &asker) {
    if (other.pod_uid != asker.pod_uid && !other.pod_uid.empty()) {
        return " of another pod";
    }
    if (other.names.slurm_job_id != asker.names.slurm_job_id && !other.names.slurm_job_id.empty()) {
        return " of Slurm job " + other.names.slurm_job_id;
    }
    if (other.names.container != asker.names.container) {
        return other.names.container.empty() ? " outside of containers" : " of another container";
    }
    return other.names.user != asker.names.user && !other.names.user.empty()
               ? " of user " + other.names.user
               : "";
}

std::string growth_text(const MemoryHolder &holder) {
    if (!holder.growth || *holder.growth <= 0 ||
        static_cast<std::uint64_t>(*holder.growth) < holder.on_gpu() / 10) {
        return "";
    }
    const double seconds = std::chrono::duration<double>(holder.growth_over).count();
    return ", " + bytes_text(static_cast<std::uint64_t>(*holder.growth)) + " more than " +
           span_text(seconds) + " before";
}

std::string own_text(const OutOfMemory &event) {
    std::string text = "it holds " + share_text(event.asker.on_gpu(), event) + " itself";
    if (!event.sites.empty() && !event.sites.front().site.empty()) {
        text += ", " + bytes_text(event.sites.front().bytes) + " of them at " +
                event.sites.front().site;
    }
    return text + growth_text(event.asker);
}

std::string neighbor_text(const OutOfMemory &event) {
    const MemoryHolder &largest = event.others.front();
    const std::string name = program_of(largest.names) + " (pid " + std::to_string(largest.pid) +
                             ")" + owner_text(largest, event.asker);
    // Some have only host memory, or managed memory.
    const auto holding = std::ranges::count_if(
        event.others, [](const MemoryHolder &other) { return other.on_gpu() > 0; });
    const std::size_t count = static_cast<std::size_t>(holding) +
                              (event.others.back().on_gpu() > 0 ? event.others_left_out : 0);
    if (count == 1) {
        return name + " holds " + share_text(largest.on_gpu(), event) + growth_text(largest);
    }
    return std::to_string(count) + " other processes hold " +
           share_text(event.others_bytes, event) + ", " + name +
           " the most: " + bytes_text(largest.on_gpu()) + growth_text(largest);
}

std::string reason_text(const OutOfMemory &event) {
    switch (event.verdict) {
        case OomVerdict::own_use:
            return own_text(event);
        case OomVerdict::neighbor:
            return neighbor_text(event);
        case OomVerdict::fragmentation:
            return "PyTorch has reserved " + bytes_text(event.torch->reserved) + " and uses " +
                   bytes_text(event.torch->allocated) + " of them: fragmentation";
        case OomVerdict::too_large:
            return (event.compares ? "the GPU has a total of "
                                   : "cudaMemGetInfo returned a total of ") +
                   bytes_text(event.memory->total) +
                   (event.memory->is_of_that_moment()
                        ? ", of which " + bytes_text(event.memory->free) + " were free"
                        : "");
        case OomVerdict::own_limit:
            return bytes_text(event.memory->free) + " are free: the program's own limit";
        case OomVerdict::not_accounted_for:
            return share_text(*event.not_accounted_for(), event) +
                   " are not accounted for (contexts, managed memory, processes that are not "
                   "traced, or memory from before the exporter's start)";
        case OomVerdict::unknown:
            break;
    }
    return "the cause is unknown";
}

}  // namespace

const std::string &program_of(const processes::ProcessNames &names) {
    return names.script.empty() ? names.comm : names.script;
}

std::optional<std::uint64_t> OutOfMemory::not_accounted_for() const {
    if (!compares || !memory || !memory->is_of_that_moment()) {
        return std::nullopt;
    }
    const std::uint64_t known = asker.on_gpu() + others_bytes + memory->free;
    return memory->total - std::min(memory->total, known);
}

OomVerdict judge(const OutOfMemory &event) {
    if (event.kind == "managed") {
        return OomVerdict::unknown;  // it may be larger than the GPU
    }
    const std::uint64_t own = event.asker.on_gpu();
    if (event.memory && knows_request(event)) {
        if (*event.requested > event.memory->total) {
            return OomVerdict::too_large;
        }
        if (event.memory->is_of_that_moment() &&
            event.memory->free >= with_slack(*event.requested)) {
            return OomVerdict::own_limit;
        }
    }
    if (event.torch && event.requested && unused_of(*event.torch) >= *event.requested) {
        return OomVerdict::fragmentation;
    }
    if (!event.memory || event.memory->total == 0) {
        return OomVerdict::unknown;
    }
    const std::uint64_t total = event.memory->total;
    if (knows_request(event)) {
        const bool fits_alone = own + *event.requested <= total;
        const std::uint64_t held =
            std::max({own, event.others_bytes, event.not_accounted_for().value_or(0)});
        if (*event.requested > held && (!fits_alone || *event.requested >= total / 2)) {
            return OomVerdict::too_large;
        }
        if (!fits_alone) {
            return OomVerdict::own_use;
        }
    }
    if (!event.compares) {
        return own >= total / 2 ? OomVerdict::own_use : OomVerdict::unknown;
    }
    return largest_holder(event, total);
}

std::string oom_sentence(const OutOfMemory &event) {
    return request_text(event) + "; " + reason_text(event);
}

}  // namespace gpusnoop::probes
