// What a signal or a POST makes the exporter do: read its configuration again, or take its probes
// from a process.
#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/app.h"
#include "exporter/base/log.h"
#include "exporter/config/units.h"
#include "exporter/http/request_parts.h"
#include "exporter/processes/proc.h"
#include "exporter/system/machine.h"

namespace gpusnoop {

Result<> Reloads::read_and_apply() {
    use_.begin();
    const auto config = use_.read();
    const Result<> read = config ? Result<>() : tl::unexpected(config.error());
    if (config) {
        use_.apply(*config);
    }
    note(read);
    if (config) {
        log::info("configuration reloaded");
    } else {
        std::istringstream lines(config.error().message);
        for (std::string line; std::getline(lines, line);) {
            log::error("failed to reload config", {{"reason", line}});
        }
    }
    use_.end(read);
    return read;
}

void Reloads::note(const Result<> &read) {
    const std::lock_guard lock(mutex_);
    last_.successful = read.has_value();
    last_.problem = read ? "" : read.error().message;
    last_.at = now_on(CLOCK_REALTIME);
    if (read) {
        last_.last_success = std::chrono::duration<double>(last_.at).count();
    }
}

namespace {

using Parameters = std::map<std::string, std::string>;

constexpr std::chrono::milliseconds default_release_time = std::chrono::minutes(10);
constexpr std::chrono::milliseconds max_release_time = std::chrono::hours(24);
// The beginning of a container's id that people see in lists.
constexpr std::size_t min_container_id = 12;

// Of /-/release and /-/give-back: pid=N, or container=ID, and of the first time=10m.
struct ReleaseQuery {
    std::vector<std::uint32_t> tgids;
    std::chrono::milliseconds time = default_release_time;
};

Result<std::vector<std::uint32_t>> processes_of(const Parameters &parameters) {
    const auto pid = parameters.find("pid");
    const auto container = parameters.find("container");
    if ((pid == parameters.end()) == (container == parameters.end())) {
        return fail("say which process: pid=N, or container=ID", EINVAL);
    }
    if (pid != parameters.end()) {
        std::uint32_t tgid = 0;
        const std::string &text = pid->second;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), tgid);
        if (error != std::errc() || end != text.data() + text.size() || tgid == 0) {
            return fail("pid must be the id of a process, as the host counts", EINVAL);
        }
        return std::vector{tgid};
    }
    if (container->second.size() < min_container_id) {
        return fail("container must be 12 characters of its id or more", EINVAL);
    }
    std::vector<std::uint32_t> tgids;
    for (const std::uint32_t tgid : processes::all_processes()) {
        if (processes::cgroup_owner_of(tgid, true)
                .container.container_id.starts_with(container->second)) {
            tgids.push_back(tgid);
        }
    }
    if (tgids.empty()) {
        return fail("no process runs in a container with this id", ESRCH);
    }
    return tgids;
}

Result<ReleaseQuery> read_release_query(std::string_view text, bool has_time) {
    const auto parameters = http::parse_query(text);
    if (!parameters) {
        return fail(parameters.error().message, EINVAL);
    }
    for (const auto &[name, value] : *parameters) {
        if (name != "pid" && name != "container" && !(has_time && name == "time")) {
            return fail("there is no parameter of this name: pid, container" +
                            std::string(has_time ? " and time are known" : " are known"),
                        EINVAL);
        }
    }
    ReleaseQuery query;
    if (const auto time = parameters->find("time"); time != parameters->end()) {
        const auto parsed = config::parse_duration(time->second);
        if (!parsed || *parsed < std::chrono::seconds(1) || *parsed > max_release_time) {
            return fail("time must be from 1s to 24h", EINVAL);
        }
        query.time = *parsed;
    }
    auto tgids = processes_of(*parameters);
    if (!tgids) {
        return tl::unexpected(tgids.error());
    }
    query.tgids = *std::move(tgids);
    return query;
}

http::Response refusal(std::string_view what, const Error &error) {
    const int status = error.code == EINVAL ? 400 : error.code == ESRCH ? 404 : 503;
    return http::text_response(status, fmt::format("{}: {}.\n", what, error.message));
}

std::string counted(std::size_t number, std::string_view one, std::string_view many) {
    return fmt::format("{} {}", number, number == 1 ? one : many);
}

}  // namespace

void App::begin_reload() const {
    const auto now = std::chrono::duration_cast<std::chrono::microseconds>(now_on(CLOCK_MONOTONIC));
    manager_.tell(fmt::format("RELOADING=1\nMONOTONIC_USEC={}\nSTATUS=reading the configuration",
                              now.count()));
}

void App::apply(const config::Config &config) {
    log::set_level(config.log.level);
    for (const std::string &key : config::keys_for_restart(config_.values, config.values)) {
        log::warn("a changed setting needs a restart", {{"key", key}});
    }
    const auto taken_over = std::make_shared<const config::Config>(config);
    for (const auto &probe : probes_) {
        if (discovery::Attacher *attacher = probe->attacher()) {
            const auto changed = discovery_->change(*attacher, [taken_over, one = probe.get()] {
                return one->reconfigure(*taken_over);
            });
            if (!changed) {
                log::error("the new configuration is not in use yet",
                           {{"probe", probe->health().name}, {"reason", changed.error().message}});
            }
        }
    }
}

std::optional<http::Response> App::refusal_of_action(std::string_view action) const {
    if (config_.web.has_lifecycle) {
        return std::nullopt;
    }
    return http::text_response(
        403, fmt::format("{} is off: start the exporter with --web.enable-lifecycle.\n", action));
}

http::Response App::reload_page() {
    if (const auto refused = refusal_of_action("Reloading by POST")) {
        return *refused;
    }
    if (const Result<> reloaded = reload(); !reloaded) {
        return http::text_response(500,
                                   "failed to reload config: " + reloaded.error().message + "\n");
    }
    return http::text_response(200, "");
}

http::Response App::release_page(const http::Request &request) {
    if (const auto refused = refusal_of_action("Releasing processes")) {
        return *refused;
    }
    const auto query = read_release_query(request.query, true);
    if (!query) {
        return refusal("Not released", query.error());
    }
    const auto left = discovery_->release(query->tgids, query->time);
    if (!left) {
        return refusal("Not released", left.error());
    }
    if (!left->is_complete()) {
        return http::text_response(
            409,
            fmt::format("Do not save the memory yet: {} to be detached from, and {} in calls "
                        "that return to a probe (/api/v1/in_flight shows calls that take long). "
                        "New calls meet no probe: ask again.\n",
                        counted(left->files_with_probes, "file has", "files have"),
                        counted(left->threads_in_calls, "thread is", "threads are")));
    }
    return http::text_response(
        200, fmt::format("Released for {}: no probe is left, and no thread returns to one. Other "
                         "processes that map the same {} are not observed meanwhile.\n",
                         config::to_text(query->time), counted(left->files, "file", "files")));
}

http::Response App::give_back_page(const http::Request &request) {
    if (const auto refused = refusal_of_action("Giving processes back")) {
        return *refused;
    }
    const auto query = read_release_query(request.query, false);
    if (!query) {
        return refusal("Not given back", query.error());
    }
    const auto given_back = discovery_->take_back(query->tgids);
    if (!given_back) {
        return refusal("Not given back", given_back.error());
    }
    return http::text_response(200,
                               fmt::format("Given back: {}. Libraries are attached to again.\n",
                                           counted(*given_back, "process", "processes")));
}

}  // namespace gpusnoop
