#include "exporter/cli/why/oom.h"

#include <spdlog/fmt/fmt.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <nlohmann/json.hpp>

#include "exporter/base/text/quantity_text.h"
#include "exporter/base/text/text.h"

namespace gpusnoop::why {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_sites = 5;
constexpr std::size_t most_holders = 10;

std::string word_of(const Json &json, const char *name) {
    return printable(json.at(name).get<std::string>());
}

std::uint64_t number_of(const Json &json, const char *name) {
    return json.at(name).get_ref<const Json::number_unsigned_t &>();
}

std::string held_text(const Json &holder, std::string_view remark) {
    const Json &growth = holder.at("growth_bytes");
    std::string grown;
    if (growth.is_number_integer() && growth.get<std::int64_t>() != 0) {
        const auto bytes = growth.get<std::int64_t>();
        grown = fmt::format(", {}{} in {}", bytes < 0 ? "-" : "+",
                            bytes_text(static_cast<std::uint64_t>(std::llabs(bytes))),
                            span_text(holder.at("growth_seconds").get<double>()));
    }
    const std::string script = word_of(holder, "script");
    const std::string container = word_of(holder, "container_id");
    const std::string job = word_of(holder, "slurm_job_id");
    return fmt::format("  {:>10}  {}{} (pid {}){}{}{}{}{}\n",
                       bytes_text(number_of(holder, "bytes")), word_of(holder, "comm"),
                       script.empty() ? "" : " " + script, number_of(holder, "pid"),
                       container.empty() ? "" : ", container " + container.substr(0, 12),
                       job.empty() ? "" : ", Slurm job " + job, grown,
                       holder.at("complete").get<bool>() ? "" : ", at least", remark);
}

std::string memory_text(const Json &event) {
    std::string text;
    if (const Json &memory = event.at("memory"); memory.is_object()) {
        text += fmt::format("  The GPU has {}, of which {} were free",  // as the program was told
                            bytes_text(number_of(memory, "total_bytes")),
                            bytes_text(number_of(memory, "free_bytes")));
        const double age = memory.at("age_seconds").get<double>();
        text +=
            memory.at("is_of_that_moment").get<bool>()
                ? ".\n"
                : fmt::format(" {} {}.\n", age_text(std::abs(age)), age < 0 ? "after" : "before");
    }
    if (const Json &torch = event.at("torch"); torch.is_object()) {
        text += fmt::format("  PyTorch had reserved {} and used {} of them.\n",
                            bytes_text(number_of(torch, "reserved_bytes")),
                            bytes_text(number_of(torch, "allocated_bytes")));
    }
    if (const Json &unseen = event.at("not_accounted_for_bytes");
        unseen.is_number_unsigned() && unseen != 0) {
        text += fmt::format("  {} are not accounted for.\n",
                            bytes_text(unseen.get_ref<const Json::number_unsigned_t &>()));
    }
    return text;
}

std::string event_text(const Json &event) {
    // To the second.
    std::string text = word_of(event, "time").substr(0, 19) + "Z  " + word_of(event, "summary") +
                       fmt::format(" [{}]\n", word_of(event, "verdict"));
    if (const std::uint64_t count = number_of(event, "count"); count > 1) {
        text += fmt::format("  Refused {} times, the last time at {}Z.\n", count,
                            word_of(event, "last_time").substr(0, 19));
    }
    text += memory_text(event) + "  Held on it:\n" + held_text(event.at("process"), "  <- asked");
    std::size_t shown = 0;
    for (const Json &other : event.at("others")) {
        if (shown++ < most_holders) {
            text += held_text(other, "");
        }
    }
    if (!event.at("others_compared").get<bool>()) {
        text +=
            "  Other processes are not compared: the GPU is divided (MIG) or unknown, or too many "
            "calls were refused.\n";
    }
    if (event.at("site").is_string()) {
        text += "  Asked for at " + word_of(event, "site") + "\n";
    }
    std::size_t sites = 0;
    for (const Json &site : event.at("sites")) {
        if (sites++ < most_sites) {
            text += fmt::format("  {:>10}  at {}\n", bytes_text(number_of(site, "bytes")),
                                word_of(site, "site"));
        }
    }
    return text;
}

}  // namespace

Result<OomText> oom_text(std::string_view json,
                         const std::function<bool(const processes::ProcessNames &)> &is_shown) {
    try {
        const Json document = Json::parse(json);
        const Json &all = document.at("out_of_memory");
        OomText result;
        for (auto event = all.rbegin(); event != all.rend(); ++event) {
            const Json &process = event->at("process");
            processes::ProcessNames names;
            names.comm = process.at("comm").get<std::string>();
            names.script = process.at("script").get<std::string>();
            if (is_shown(names)) {
                result.text += (result.has_any ? "\n" : "") + event_text(*event);
                result.has_any = true;
            }
        }
        return result;
    } catch (const std::exception &) {
        return fail("its answer is not a list of refusals of memory in this version's format");
    }
}

}  // namespace gpusnoop::why
