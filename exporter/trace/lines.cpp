#include "exporter/trace/lines.h"

#include <spdlog/fmt/fmt.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "exporter/base/text/text.h"

namespace gpusnoop::trace {

namespace {

using nlohmann::ordered_json;

// Characters of valid UTF-8 that still have an effect: C1 controls, line and paragraph separators,
// and marks that change the direction of text.
bool acts_on_terminals(std::string_view character) {
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(character[at]); };
    if (character.size() == 2) {
        return byte(0) == 0xC2 && byte(1) < 0xA0;
    }
    if (character.size() != 3 || byte(0) != 0xE2) {
        return false;
    }
    return (byte(1) == 0x80 && byte(2) >= 0xA8 && byte(2) <= 0xAE) ||
           (byte(1) == 0x80 && (byte(2) == 0x8E || byte(2) == 0x8F)) ||
           (byte(1) == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9);
}

std::string prefixed_hex(std::uint64_t value) {
    return fmt::format("{:#x}", value);
}

std::string utc(std::int64_t nanoseconds, bool with_date) {
    constexpr std::int64_t second = 1'000'000'000;
    const std::time_t seconds = nanoseconds / second;
    std::tm time{};
    ::gmtime_r(&seconds, &time);
    const std::string clock =
        fmt::format("{:02}:{:02}:{:02}", time.tm_hour, time.tm_min, time.tm_sec);
    if (!with_date) {
        return fmt::format("{}.{:06}", clock, nanoseconds % second / 1000);
    }
    return fmt::format("{:04}-{:02}-{:02}T{}.{:09}Z", time.tm_year + 1900, time.tm_mon + 1,
                       time.tm_mday, clock, nanoseconds % second);
}

std::string human_duration(std::uint64_t nanoseconds) {
    const auto value = static_cast<double>(nanoseconds);
    if (nanoseconds < 1'000'000) {
        return fmt::format("{:.1f}us", value / 1e3);
    }
    if (nanoseconds < 1'000'000'000) {
        return fmt::format("{:.3f}ms", value / 1e6);
    }
    return fmt::format("{:.3f}s", value / 1e9);
}

struct ToText {
    std::string operator()(std::monostate /*nothing*/) const { return "-"; }
    std::string operator()(std::uint64_t number) const { return std::to_string(number); }
    std::string operator()(std::int64_t number) const { return std::to_string(number); }
    std::string operator()(Word word) const { return prefixed_hex(word.value); }
    std::string operator()(const std::string &text) const {
        return text.find(' ') == std::string::npos ? text : '"' + text + '"';
    }
    std::string operator()(const Size3 &size) const {
        return fmt::format("{}x{}x{}", size[0], size[1], size[2]);
    }
    std::string operator()(const std::vector<Word> &words) const {
        std::string text;
        for (const Word word : words) {
            text += (text.empty() ? "(" : ",") + prefixed_hex(word.value);
        }
        return text.empty() ? "()" : text + ")";
    }
    std::string operator()(const Durations &durations) const {
        std::string text;
        for (const auto &[name, ns] : durations) {
            text += fmt::format("{}{}:{}", text.empty() ? "" : ",", name, human_duration(ns));
        }
        return text.empty() ? "-" : text;
    }
};

struct ToJson {
    ordered_json operator()(std::monostate /*nothing*/) const { return nullptr; }
    ordered_json operator()(std::uint64_t number) const { return number; }
    ordered_json operator()(std::int64_t number) const { return number; }
    ordered_json operator()(Word word) const { return prefixed_hex(word.value); }
    ordered_json operator()(const std::string &text) const { return text; }
    ordered_json operator()(const Size3 &size) const { return size; }
    ordered_json operator()(const std::vector<Word> &words) const {
        ordered_json list = ordered_json::array();
        for (const Word word : words) {
            list.push_back(prefixed_hex(word.value));
        }
        return list;
    }
    ordered_json operator()(const Durations &durations) const {
        ordered_json object = ordered_json::object();
        for (const auto &[name, ns] : durations) {
            object[std::string(name)] = ns;
        }
        return object;
    }
};

std::string text_frame(std::size_t number, const StackFrame &frame) {
    const symbols::Frame &place = frame.place;
    if (place.module.empty()) {
        return fmt::format("    #{} {}\n", number, prefixed_hex(frame.address));
    }
    return fmt::format("    #{} {}+{} ({})\n", number,
                       place.function.empty() ? place.module : place.function,
                       prefixed_hex(place.offset), place.module);
}

ordered_json json_frame(const StackFrame &frame) {
    const auto or_null = [](const std::string &text) {
        return text.empty() ? ordered_json(nullptr) : ordered_json(text);
    };
    ordered_json object;
    object["address"] = prefixed_hex(frame.address);
    object["function"] = or_null(frame.place.function);
    object["module"] = or_null(frame.place.module);
    object["offset"] =
        frame.place.module.empty() ? ordered_json(nullptr) : ordered_json(frame.place.offset);
    return object;
}

constexpr std::string_view columns = "{:<15} {:>7} {:>7} {:>7} {:<15} {:<24} {:>10} {:<24} ";

}  // namespace

std::string printable(std::string_view bytes, std::size_t max_bytes) {
    const std::string valid = to_valid_utf8(bytes, max_bytes);
    std::string_view rest = valid;
    std::string text;
    while (!rest.empty()) {
        const std::string_view character = rest.substr(0, utf8_step(rest).size);
        text += acts_on_terminals(character) ? "?" : character;
        rest.remove_prefix(character.size());
    }
    return text;
}

processes::ProcessNames printable(const processes::ProcessNames &names) {
    return {.comm = printable(names.comm, max_text_bytes),
            .script = printable(names.script, max_text_bytes),
            .container = printable(names.container, max_text_bytes),
            .slurm_job_id = printable(names.slurm_job_id, max_text_bytes),
            .user = printable(names.user, max_text_bytes)};
}

std::string text_of(const processes::ProcessNames &names) {
    std::string text;
    if (!names.script.empty()) {
        text += " script=" + ToText()(names.script);
    }
    if (!names.slurm_job_id.empty()) {
        text += " slurm_job_id=" + names.slurm_job_id;
    }
    return text;
}

std::string text_header(std::string_view name) {
    return fmt::format(fmt::runtime(columns), "TIME (UTC)", "PID", "TID", "PPID", "COMM", name,
                       "DURATION", "RESULT") +
           "WHAT\n";
}

std::string text_row(const Row &row, std::span<const StackFrame> stack) {
    const auto id = [](std::uint32_t number) { return number == 0 ? "-" : std::to_string(number); };
    std::string line = fmt::format(
        fmt::runtime(columns), utc(row.time_ns, false), id(row.pid), id(row.tid), id(row.ppid),
        row.comm, row.name, row.duration_ns ? human_duration(*row.duration_ns) : "-", row.result);
    line += row.what;
    line.erase(line.find_last_not_of(' ') + 1);
    line += '\n';
    for (std::size_t i = 0; i < stack.size(); i++) {
        line += text_frame(i, stack[i]);
    }
    return line;
}

std::string text_line(const Event &event) {
    std::string what;
    for (const auto &[key, value] : event.details) {
        if (!std::holds_alternative<std::monostate>(value)) {
            what += fmt::format("{}={} ", key, std::visit(ToText(), value));
        }
    }
    what.resize(what.empty() ? 0 : what.size() - 1);
    what += text_of(event);
    return text_row({event.time_ns, event.pid, event.tid, event.ppid, event.comm, event.name,
                     event.duration_ns, event.result, what},
                    event.stack);
}

std::string json_line(const Event &event) {
    const auto or_null = [](auto number) {
        return number ? ordered_json(number) : ordered_json(nullptr);
    };
    ordered_json object;
    object["time"] = utc(event.time_ns, true);
    object["duration_ns"] =
        event.duration_ns ? ordered_json(*event.duration_ns) : ordered_json(nullptr);
    object["pid"] = or_null(event.pid);
    object["tid"] = or_null(event.tid);
    object["ppid"] = or_null(event.ppid);
    processes::add_names(object, event);
    object[std::string(event.kind)] = event.name;
    for (const auto *const list : {&event.results, &event.details}) {
        for (const auto &[key, value] : *list) {
            object[std::string(key)] = std::visit(ToJson(), value);
        }
    }
    if (!event.stack.empty()) {
        ordered_json frames = ordered_json::array();
        for (const StackFrame &frame : event.stack) {
            frames.push_back(json_frame(frame));
        }
        object["stack"] = std::move(frames);
    }
    return object.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + '\n';
}

}  // namespace gpusnoop::trace
