// The names by which people know a process: the same on the status page, in documents and in lines.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gpusnoop::processes {

// Valid UTF-8 and not long.
struct ProcessNames {
    std::string comm;
    std::string script;        // that an interpreter runs; empty: none, or not known
    std::string container;     // its id; empty: on the host
    std::string slurm_job_id;  // empty: no job's
    std::string user;          // empty: the host's file of users has no such name

    friend bool operator==(const ProcessNames &, const ProcessNames &) = default;
};

// Adds a member of the object for each, in this order.
void add_names(nlohmann::ordered_json &object, const ProcessNames &names);

}  // namespace gpusnoop::processes
