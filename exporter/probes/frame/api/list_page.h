// What the pages of the API that list things have in common: their parameters, which select what
// is listed, and the JSON around the list. docs/api.md describes both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/processes/process_names.h"
#include "exporter/symbols/stacks/stack_text.h"

namespace gpusnoop::probes {

// The decoded parameters of a request, by name. Names and values come from the client and may be
// anything.
using QueryParameters = std::map<std::string, std::string>;

// Parses the number in a parameter. It must not be less than `least`.
[[nodiscard]] Result<std::uint32_t> read_parameter(const std::string &name,
                                                   const std::string &value, std::uint32_t least);

struct ApiResponse {
    std::string content_type;
    std::string text;
};

// A copy of a probe's data at one time. The aggregating thread only makes the copy; the thread that
// serves it writes the response.
struct ApiPage {
    std::string name;  // of its page: "allocations" is /api/v1/allocations
    // For any thread, any number of times. An error describes the problem with the parameters.
    std::function<Result<ApiResponse>(const QueryParameters &)> write;
};

// A page is no longer than this.
inline constexpr std::size_t max_list_page_bytes = std::size_t{8} << 20;

struct PageParameter {
    enum class Type {
        glob,      // matched against a text of what is listed
        number,    // from 1 on; equal to a number of what is listed
        duration,  // such as 20ms
        choice,    // one of `choices`, the first by default
    };
    std::string_view name;
    Type type = Type::glob;
    std::vector<std::string_view> choices = {};
};

// Those of a page whose things belong to processes.
[[nodiscard]] std::vector<PageParameter> process_parameters();
// The same, with the page's own parameters first.
[[nodiscard]] std::vector<PageParameter> process_parameters(std::vector<PageParameter> own);

// What one request asks for.
class ListQuery {
public:
    // `page`: the page's parameters; each page has `limit`, too. The error names the parameter that
    // is wrong.
    [[nodiscard]] static Result<ListQuery> read(const QueryParameters &parameters,
                                                std::span<const PageParameter> page);

    // Whether a thing with this value is asked for. True without the parameter.
    [[nodiscard]] bool wants(std::string_view parameter, std::string_view text) const;
    [[nodiscard]] bool wants(std::string_view parameter, std::uint64_t number) const;
    // By `pid`, `comm` and `script`.
    [[nodiscard]] bool wants_process(std::uint32_t pid, const processes::ProcessNames &names) const;
    // Whether the request has one of these three.
    [[nodiscard]] bool has_process() const;
    // In nanoseconds; 0 without the parameter.
    [[nodiscard]] std::uint64_t duration_ns(std::string_view parameter) const;
    [[nodiscard]] std::string_view choice(std::string_view parameter) const;
    // How many things are listed at most.
    [[nodiscard]] std::uint32_t limit() const { return limit_; }

private:
    Result<> read(const PageParameter &parameter, const std::string &value);

    std::map<std::string, std::string, std::less<>> texts_;      // globs and choices
    std::map<std::string, std::uint64_t, std::less<>> numbers_;  // and durations
    std::uint32_t limit_ = std::numeric_limits<std::uint32_t>::max();
};

// Writes `"name":[...]` behind a text. If an element is too long for the text to stay below `most`
// bytes, it is left out, and so are all after it.
class JsonList {
public:
    JsonList(std::string &text, std::string_view name,
             std::uint32_t limit = std::numeric_limits<std::uint32_t>::max(),
             std::size_t most = max_list_page_bytes - closing_bytes);

    // Adds what make() returns, a JSON value or the text of one, which it makes only if there is
    // room for more.
    template <typename Make>
    void add(Make make) {
        if (is_full_ || written_ == limit_) {
            left_out_++;
        } else {
            append(make());
        }
    }
    void leave_out(std::size_t count) { left_out_ += count; }
    // Ends the list. Returns how many elements it lacks.
    std::size_t end();

    // For what follows the last list.
    static constexpr std::size_t closing_bytes = 1'024;

private:
    void append(const nlohmann::ordered_json &json);
    void append(const std::string &json);

    std::string &text_;
    std::uint32_t limit_;
    std::size_t most_;
    std::uint32_t written_ = 0;
    std::size_t left_out_ = 0;
    bool is_full_ = false;
};

// Ends an object's text after its last list.
void add_left_out(std::string &text, std::size_t left_out);
// The page: its text as it is after its last list. `left_out`: how many elements its lists lack.
// `is_truncated`: a list inside of an element lacks some.
[[nodiscard]] ApiResponse end_page(std::string text, std::size_t left_out,
                                   bool is_truncated = false);

// A page that write(state, query) makes of a copy of a probe's data: an ApiResponse, or a Result
// with one, whose error says which parameters do not go together.
template <typename State, typename Write>
[[nodiscard]] ApiPage list_page(std::string_view name, std::vector<PageParameter> page, State state,
                                Write write) {
    return {std::string(name),
            [state = std::make_shared<const State>(std::move(state)), page = std::move(page),
             write](const QueryParameters &parameters) -> Result<ApiResponse> {
                const auto query = ListQuery::read(parameters, page);
                if (!query) {
                    return tl::unexpected(query.error());
                }
                return write(*state, *query);
            }};
}

// {"function":"main","module":"python3.11","offset":120}, with null for unknown values.
[[nodiscard]] nlohmann::ordered_json frame_json(const symbols::Frame &frame);

// In one line. Bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string to_text(const nlohmann::ordered_json &json);

}  // namespace gpusnoop::probes
