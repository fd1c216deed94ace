#include "exporter/cli/top/in_flight.h"

#include <spdlog/fmt/fmt.h>

#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>

#include "exporter/base/text/quantity_text.h"
#include "exporter/cli/top/client/ask.h"
#include "exporter/cli/top/client/client.h"
#include "exporter/trace/lines.h"

namespace gpusnoop::top {

namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json &json, const char *name) {
    const auto found = json.find(name);
    return found != json.end() && found->is_string()
               ? trace::printable(found->get<std::string>(), trace::max_text_bytes)
               : std::string();
}

// "name=value " for each member that has a value.
std::string details_of(const Json &call) {
    std::string text;
    for (const char *const name : {"library", "gpu", "script", "slurm_job_id", "state", "signal"}) {
        if (const std::string value = text_of(call, name); !value.empty()) {
            text += fmt::format(" {}={}", name, value);
        }
    }
    for (const auto &[position, value] : call.at("arguments").items()) {
        text += fmt::format(" {}={}", trace::printable(position, 8),
                            trace::printable(value.get<std::string>(), trace::max_text_bytes));
    }
    if (const Json &nccl = call.at("nccl"); nccl.is_object()) {
        for (const auto &[name, value] : nccl.items()) {
            if (!value.is_null()) {
                const std::string shown =
                    value.is_string() ? value.get<std::string>() : value.dump();
                text +=
                    fmt::format(" {}={}", trace::printable(name, 32), trace::printable(shown, 32));
            }
        }
    }
    return text;
}

std::string frames_of(const Json &call) {
    std::string text;
    if (const auto kernel = call.find("kernel_stack"); kernel != call.end()) {
        for (const Json &name : *kernel) {
            text += fmt::format("    {} (kernel)\n",
                                trace::printable(name.get<std::string>(), trace::max_text_bytes));
        }
    }
    if (const auto stack = call.find("stack"); stack != call.end()) {
        for (const Json &frame : *stack) {
            const std::string function = text_of(frame, "function");
            const std::string module = text_of(frame, "module");
            text += fmt::format("    {}{}{}\n", function.empty() ? "unknown" : function,
                                module.empty() ? "" : " ", module);
        }
    }
    return text;
}

constexpr const char *columns = "{:<10} {:<8} {:<8} {:<16} {:<30}{}\n";

std::string line_of(const Json &call) {
    return fmt::format(fmt::runtime(columns), age_text(call.at("age_seconds").get<double>()),
                       call.at("pid").get<std::uint32_t>(), call.at("tid").get<std::uint32_t>(),
                       text_of(call, "comm"), text_of(call, "function"), details_of(call)) +
           frames_of(call);
}

std::string lines_of(const Json &answer, bool json) {
    std::string text;
    if (!json) {
        text = fmt::format(fmt::runtime(columns), "FOR", "PID", "TID", "COMM", "FUNCTION", " WHAT");
    }
    for (const Json &call : answer.at("in_flight")) {
        // Only strings can contain control characters for a terminal, and there any character is
        // allowed.
        const std::string object =
            json ? call.dump(-1, ' ', false, Json::error_handler_t::replace) : "";
        text += json ? trace::printable(object, object.size()) + "\n" : line_of(call);
    }
    if (const auto left_out = answer.at("left_out").get<std::uint64_t>(); left_out > 0 && !json) {
        text += fmt::format("and {} more\n", left_out);
    }
    return text;
}

}  // namespace

Result<std::string> in_flight_lines(std::string_view answer, bool json) {
    try {
        return lines_of(Json::parse(answer), json);
    } catch (const std::exception &) {
        return fail("its answer is not a list of calls in flight in this version's format");
    }
}

Result<> print_in_flight(const InFlightOptions &options) {
    auto client = Client::make(options.address, options.access);
    if (!client) {
        return tl::unexpected(client.error());
    }
    const std::string path = "/api/v1/in_flight";
    const auto answer = ask(**client, path, options.address);
    if (!answer) {
        return tl::unexpected(answer.error());
    }
    if (const auto usable = check(*answer, path, options.address.text()); !usable) {
        return usable;
    }
    const auto lines = in_flight_lines(answer->body, options.json);
    if (!lines) {
        return fail_in(options.address.text(), lines.error());
    }
    std::fputs(lines->c_str(), stdout);
    return std::fflush(stdout) == 0 ? Result<>() : Result<>(fail_errno("write the calls"));
}

}  // namespace gpusnoop::top
