#include "exporter/probes/cuda/process.h"

namespace gpusnoop::probes {

std::string gpu_of(const Process &process, std::int32_t device) {
    return process.gpu_name(device < 0 ? std::nullopt
                                       : std::optional(static_cast<std::uint32_t>(device)));
}

series::LabelValues labels_of(const Process &process, std::initializer_list<std::string_view> own) {
    series::LabelValues values = process.labels;
    values.insert(values.end(), own.begin(), own.end());
    return values;
}

series::LabelValues gauge_labels_of(const Process &process,
                                    std::initializer_list<std::string_view> own) {
    series::LabelValues values = {process.comm, process.script, process.container,
                                  process.slurm_job_id, std::to_string(process.key.tgid)};
    values.insert(values.end(), own.begin(), own.end());
    return values;
}

}  // namespace gpusnoop::probes
