#include "exporter/processes/process_names.h"

#include <nlohmann/json.hpp>

namespace gpusnoop::processes {

void add_names(nlohmann::ordered_json &object, const ProcessNames &names) {
    object["comm"] = names.comm;
    object["script"] = names.script;
    object["container_id"] = names.container;
    object["slurm_job_id"] = names.slurm_job_id;
    object["user"] = names.user;
}

}  // namespace gpusnoop::processes
