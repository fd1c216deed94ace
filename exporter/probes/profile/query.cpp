#include "exporter/probes/profile/query.h"

#include <algorithm>
#include <map>
#include <utility>

#include "exporter/base/text/text.h"
#include "exporter/config/units.h"

namespace gpusnoop::probes {

namespace {

using std::chrono::milliseconds;

template <typename T>
Result<> read_name(const std::string &name, const std::string &value,
                   const std::map<std::string, T> &known, T &to) {
    const auto found = known.find(value);
    if (found != known.end()) {
        to = found->second;
        return {};
    }
    std::string names;
    for (const auto &[one, unused] : known) {
        names += (names.empty() ? "" : ", ") + one;
    }
    return fail(name + " must be one of " + names + ", not " + in_quotes(value));
}

Result<> read_number(const std::string &name, const std::string &value, std::uint32_t most,
                     std::uint32_t &to) {
    const auto number = read_parameter(name, value, 1);
    if (!number || *number > most) {
        return fail(name + " must be a number from 1 to " + std::to_string(most) + ", not " +
                    in_quotes(value));
    }
    to = *number;
    return {};
}

Result<> read_duration(const std::string &name, const std::string &value, milliseconds most,
                       milliseconds &to) {
    const auto duration = config::parse_duration(value);
    if (!duration || *duration < min_profile_duration || *duration > most) {
        return fail(name + " must be from " + config::to_text(min_profile_duration) + " to " +
                    config::to_text(most) + ", like 10s, not " + in_quotes(value));
    }
    to = *duration;
    return {};
}

// What cannot be together.
Result<> check_query(const QueryParameters &parameters, const ProfileQuery &query) {
    if (query.is_of_past &&
        (parameters.contains("duration") || parameters.contains("seconds") ||
         parameters.contains("frequency") || query.settings.type != ProfileType::cpu)) {
        return fail(
            "past is of the profile of the CPU that is taken all the time: it goes with pid, comm "
            "and format alone");
    }
    if (parameters.contains("duration") && parameters.contains("seconds")) {
        return fail("duration and seconds are the same: give one of them");
    }
    if (parameters.contains("pid") && parameters.contains("comm")) {
        return fail("give pid or comm, not both");
    }
    if (parameters.contains("frequency") && query.settings.type != ProfileType::cpu) {
        return fail("frequency is only for type=cpu: the other types see each event");
    }
    return {};
}

}  // namespace

Result<ProfileQuery> read_profile_query(const QueryParameters &parameters,
                                        const ProfileConfig &config) {
    ProfileQuery query;
    const milliseconds max_duration = config.max_duration;
    query.duration = std::min(query.duration, max_duration);
    query.is_of_past = parameters.contains("past");
    if (query.is_of_past && config.continuous_frequency == 0) {
        return fail(
            "this exporter keeps no past: profile.continuous_frequency is 0. Without past, it "
            "takes a profile now");
    }
    for (const auto &[name, value] : parameters) {
        Result<> read;
        if (name == "type") {
            auto types = profile_types();
            types.erase("heap");  // attaches to functions of a process: for who may start it only
            read = read_name(name, value, types, query.settings.type);
        } else if (name == "format") {
            read = read_name(name, value, profile_formats(), query.format);
        } else if (name == "duration") {
            read = read_duration(name, value, max_duration, query.duration);
        } else if (name == "past") {
            read = read_duration(name, value, config.keep, query.duration);
        } else if (name == "seconds") {
            std::uint32_t seconds = 0;
            read = read_number(
                name, value,
                static_cast<std::uint32_t>(
                    std::chrono::duration_cast<std::chrono::seconds>(max_duration).count()),
                seconds);
            query.duration = std::chrono::seconds(seconds);
        } else if (name == "frequency") {
            read = read_number(name, value, 999, query.settings.frequency);
        } else if (name == "pid") {
            const auto pid = read_parameter(name, value, 1);
            read = pid ? Result<>() : tl::unexpected(pid.error());
            query.settings.filter.pids = {pid.value_or(0)};
        } else if (name == "comm") {
            query.settings.filter.comm = value;
        } else {
            read = fail(in_quotes(name) +
                        " is not a parameter of this page; it has type, duration, seconds, past, "
                        "frequency, pid, comm and format");
        }
        if (!read) {
            return tl::unexpected(read.error());
        }
    }
    const auto checked = check_query(parameters, query);
    return checked ? Result<ProfileQuery>(std::move(query)) : tl::unexpected(checked.error());
}

}  // namespace gpusnoop::probes
