#include "exporter/probes/frame/api/list_page.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "exporter/base/glob.h"
#include "exporter/base/text/text.h"
#include "exporter/config/units.h"

namespace gpusnoop::probes {

Result<std::uint32_t> read_parameter(const std::string &name, const std::string &value,
                                     std::uint32_t least) {
    std::uint32_t number = 0;
    const char *end = value.data() + value.size();
    const auto read = std::from_chars(value.data(), end, number);
    if (read.ec != std::errc{} || read.ptr != end || number < least) {
        return fail(name + " must be a number from " + std::to_string(least) + " to " +
                    std::to_string(std::numeric_limits<std::uint32_t>::max()) + ", not " +
                    in_quotes(value));
    }
    return number;
}

namespace {

constexpr std::string_view limit_name = "limit";

// fnmatch can take long with a long pattern.
constexpr std::size_t max_glob_bytes = 256;
constexpr std::ptrdiff_t max_glob_stars = 8;

Result<> check_glob(std::string_view name, const std::string &value) {
    if (value.empty() || value.size() > max_glob_bytes ||
        std::ranges::count(value, '*') > max_glob_stars ||
        find_invalid_utf8(value) != std::string::npos || value.find('\0') != std::string::npos) {
        return fail(std::string(name) + " must be a name or a glob of 1 to " +
                    std::to_string(max_glob_bytes) + " bytes with at most " +
                    std::to_string(max_glob_stars) + " *, not " + in_quotes(value));
    }
    return {};
}

// "a, b and c"
std::string listed(std::span<const std::string_view> names, std::string_view last_word) {
    std::string text;
    for (std::size_t i = 0; i < names.size(); i++) {
        if (i > 0) {
            text += i + 1 == names.size() ? " " + std::string(last_word) + " " : ", ";
        }
        text += names[i];
    }
    return text;
}

}  // namespace

std::vector<PageParameter> process_parameters() {
    return {{"pid", PageParameter::Type::number}, {"comm"}, {"script"}};
}

std::vector<PageParameter> process_parameters(std::vector<PageParameter> own) {
    std::ranges::copy(process_parameters(), std::back_inserter(own));
    return own;
}

Result<ListQuery> ListQuery::read(const QueryParameters &parameters,
                                  std::span<const PageParameter> page) {
    ListQuery query;
    for (const PageParameter &parameter : page) {
        if (!parameter.choices.empty()) {
            query.texts_.emplace(parameter.name, parameter.choices.front());
        }
    }
    for (const auto &[name, value] : parameters) {
        if (name == limit_name) {
            const auto limit = read_parameter(name, value, 0);
            if (!limit) {
                return tl::unexpected(limit.error());
            }
            query.limit_ = *limit;
            continue;
        }
        const auto found = std::ranges::find(page, name, &PageParameter::name);
        if (found == page.end()) {
            std::vector<std::string_view> names;
            std::ranges::transform(page, std::back_inserter(names), &PageParameter::name);
            names.push_back(limit_name);
            return fail(in_quotes(name) + " is not a parameter of this page; it has " +
                        listed(names, "and"));
        }
        if (const auto read = query.read(*found, value); !read) {
            return tl::unexpected(read.error());
        }
    }
    return query;
}

Result<> ListQuery::read(const PageParameter &parameter, const std::string &value) {
    const std::string name(parameter.name);
    switch (parameter.type) {
        case PageParameter::Type::glob:
            if (auto checked = check_glob(name, value); !checked) {
                return checked;
            }
            texts_[name] = value;
            return {};
        case PageParameter::Type::number: {
            const auto number = read_parameter(name, value, 1);
            if (!number) {
                return tl::unexpected(number.error());
            }
            numbers_[name] = *number;
            return {};
        }
        case PageParameter::Type::duration: {
            const auto duration = config::parse_short_duration(value);
            if (!duration) {
                return fail(name + " must be a duration, such as 500us or 20ms, not " +
                            in_quotes(value));
            }
            numbers_[name] = static_cast<std::uint64_t>(duration->count());
            return {};
        }
        case PageParameter::Type::choice:
            break;
    }
    if (std::ranges::find(parameter.choices, value) == parameter.choices.end()) {
        return fail(name + " must be " + listed(parameter.choices, "or") + ", not " +
                    in_quotes(value));
    }
    texts_[name] = value;
    return {};
}

bool ListQuery::wants(std::string_view parameter, std::string_view text) const {
    const auto found = texts_.find(parameter);
    return found == texts_.end() || matches_glob(found->second, text);
}

bool ListQuery::wants(std::string_view parameter, std::uint64_t number) const {
    const auto found = numbers_.find(parameter);
    return found == numbers_.end() || found->second == number;
}

bool ListQuery::wants_process(std::uint32_t pid, const processes::ProcessNames &names) const {
    return wants("pid", std::uint64_t{pid}) && wants("comm", names.comm) &&
           wants("script", names.script);
}

bool ListQuery::has_process() const {
    return numbers_.contains("pid") || texts_.contains("comm") || texts_.contains("script");
}

std::uint64_t ListQuery::duration_ns(std::string_view parameter) const {
    const auto found = numbers_.find(parameter);
    return found == numbers_.end() ? 0 : found->second;
}

std::string_view ListQuery::choice(std::string_view parameter) const {
    const auto found = texts_.find(parameter);
    return found == texts_.end() ? std::string_view() : found->second;
}

JsonList::JsonList(std::string &text, std::string_view name, std::uint32_t limit, std::size_t most)
    : text_(text), limit_(limit), most_(most) {
    text_ += '"' + std::string(name) + R"(":[)";
}

void JsonList::append(const nlohmann::ordered_json &json) {
    append(to_text(json));
}

void JsonList::append(const std::string &json) {
    if (text_.size() + json.size() + 1 > most_) {
        is_full_ = true;
        left_out_++;
        return;
    }
    text_ += written_++ == 0 ? "" : ",";
    text_ += json;
}

std::size_t JsonList::end() {
    text_ += ']';
    return left_out_;
}

void add_left_out(std::string &text, std::size_t left_out) {
    text += R"(,"left_out":)" + std::to_string(left_out);
}

ApiResponse end_page(std::string text, std::size_t left_out, bool is_truncated) {
    add_left_out(text, left_out);
    text += R"(,"truncated":)";
    text += left_out > 0 || is_truncated ? "true}\n" : "false}\n";
    return {"application/json", std::move(text)};
}

namespace {

using Json = nlohmann::ordered_json;

Json known(const std::string &text) {
    return text.empty() ? Json() : Json(text);
}

}  // namespace

Json frame_json(const symbols::Frame &frame) {
    // Without a function or a file, the offset would be an address of the process.
    const bool has_offset = !frame.function.empty() || !frame.module.empty();
    return {{"function", known(frame.function)},
            {"module", known(frame.module)},
            {"offset", has_offset ? Json(frame.offset) : Json()}};
}

std::string to_text(const Json &json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gpusnoop::probes
