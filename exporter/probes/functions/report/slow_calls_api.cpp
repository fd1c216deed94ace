#include "exporter/probes/functions/report/slow_calls_api.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "exporter/base/text.h"
#include "exporter/probes/functions/report/call_json.h"

namespace gpusnoop::probes {

namespace {

// Room for the closing brackets.
constexpr std::size_t closing_bytes = 256;

struct Query {
    std::optional<std::string> function;
    std::optional<std::string> library;
    std::optional<std::string> comm;
    std::optional<std::uint32_t> pid;
    std::uint32_t limit = std::numeric_limits<std::uint32_t>::max();
};

Result<Query> read_query(const QueryParameters &parameters) {
    Query query;
    for (const auto &[name, value] : parameters) {
        if (name == "function") {
            query.function = value;
        } else if (name == "library") {
            query.library = value;
        } else if (name == "comm") {
            query.comm = value;
        } else if (name == "pid" || name == "limit") {
            const auto number = read_parameter(name, value, name == "pid" ? 1 : 0);
            if (!number) {
                return tl::unexpected(number.error());
            }
            (name == "pid" ? query.pid.emplace() : query.limit) = *number;
        } else {
            return fail(in_quotes(name) +
                        " is not a parameter of this page; it has function, library, comm, pid "
                        "and limit");
        }
    }
    return query;
}

bool is_asked_for(const SlowCall &call, const Query &query) {
    return query.function.value_or(call.function->name) == call.function->name &&
           query.library.value_or(call.function->library) == call.function->library &&
           query.comm.value_or(call.comm) == call.comm && query.pid.value_or(call.pid) == call.pid;
}

std::string json_text(const std::vector<SlowCall> &all, const Query &query) {
    std::string text = R"({"slow_calls":[)";
    std::size_t written = 0;
    std::size_t left_out = 0;
    for (const SlowCall &call : all) {
        if (!is_asked_for(call, query)) {
            continue;
        }
        if (left_out > 0 || written == query.limit) {
            left_out++;
            continue;
        }
        const std::string one = to_json(call);
        if (text.size() + one.size() + closing_bytes > max_slow_calls_bytes) {
            left_out++;
            continue;
        }
        text += (written++ == 0 ? "" : ",") + one;
    }
    return text + R"(],"slow_calls_left_out":)" + std::to_string(left_out) + R"(,"truncated":)" +
           (left_out > 0 ? "true}\n" : "false}\n");
}

}  // namespace

ApiResource slow_calls_document(std::vector<SlowCall> all) {
    const auto shared = std::make_shared<const std::vector<SlowCall>>(std::move(all));
    return {"slow_calls", [shared](const QueryParameters &parameters) -> Result<ApiResponse> {
                const auto query = read_query(parameters);
                if (!query) {
                    return tl::unexpected(query.error());
                }
                return ApiResponse{"application/json", json_text(*shared, *query)};
            }};
}

}  // namespace gpusnoop::probes
