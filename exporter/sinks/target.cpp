#include "exporter/sinks/target.h"

#include <yaml-cpp/node/impl.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "exporter/base/text/text.h"
#include "exporter/config/reader.h"

namespace gpusnoop::sinks {

namespace {

constexpr std::size_t max_host = 253;

bool is_host(std::string_view host, bool in_brackets) {
    constexpr std::string_view name =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    constexpr std::string_view address_characters =
        "0123456789abcdefABCDEF:.%-_ghijklmnopqrstuvwxyz";
    return !host.empty() && host.size() <= max_host &&
           host.find_first_not_of(in_brackets ? address_characters : name) ==
               std::string_view::npos;
}

}  // namespace

std::string to_text(const Target &target) {
    switch (target.type) {
        case TargetType::file:
            return "file:" + target.path;
        case TargetType::unix_socket:
            return "unix:" + target.path;
        case TargetType::tcp:
            break;
    }
    const bool is_v6 = target.host.find(':') != std::string::npos;
    return "tcp:" + (is_v6 ? "[" + target.host + "]" : target.host) + ":" +
           std::to_string(target.port);
}

Result<Target> parse_tcp(std::string_view address) {
    const auto wrong = [&] {
        return fail(in_quotes(address) +
                    " is not an address such as collector:9000, 10.0.0.1:9000 or [::1]:9000");
    };
    const bool in_brackets = address.starts_with('[');
    const std::size_t colon = address.rfind(':');
    if (colon == std::string_view::npos || (in_brackets && address[colon - 1] != ']')) {
        return wrong();
    }
    const std::string_view host =
        in_brackets ? address.substr(1, colon - 2) : address.substr(0, colon);
    const std::string_view digits = address.substr(colon + 1);
    std::uint16_t port = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    if (read.ec != std::errc{} || read.ptr != digits.data() + digits.size() || port == 0 ||
        !is_host(host, in_brackets)) {
        return wrong();
    }
    return Target{.type = TargetType::tcp, .path = {}, .host = std::string(host), .port = port};
}

Result<Target> parse_path(TargetType type, std::string_view path) {
    if (!path.starts_with('/') || path.ends_with('/')) {
        return fail(in_quotes(path) + " is not an absolute path of a " +
                    (type == TargetType::file ? "file" : "socket"));
    }
    const std::size_t most = type == TargetType::file ? max_file_path : max_socket_path;
    if (path.size() > most) {
        return fail("must be " + std::to_string(most) + " bytes long at most, is " +
                    std::to_string(path.size()));
    }
    return Target{.type = type, .path = std::string(path)};
}

namespace {

using config::Section;
using config::Value;

constexpr std::uint32_t min_queue = 64U << 10U;
constexpr std::uint32_t max_queue = 256U << 20U;

std::string article(TargetType type) {
    return type == TargetType::file ? "a file" : type == TargetType::tcp ? "tcp" : "a Unix socket";
}

// Reads the target from its key, one of the two that exist.
std::optional<Target> read_target(Section &section, TargetType type) {
    const bool is_tcp = type == TargetType::tcp;
    const Value *const place = section.find(is_tcp ? "address" : "path");
    section.reject(
        is_tcp ? "path" : "address",
        "does not go with " + article(type) + ", which has " + (is_tcp ? "an address" : "a path"));
    if (place == nullptr) {
        section.reject("has no " + std::string(is_tcp ? "address" : "path") + ": " + article(type) +
                       " needs one");
        return std::nullopt;
    }
    const auto text = place->text(is_tcp ? "an address such as collector:9000" : "a path");
    if (!text) {
        return std::nullopt;
    }
    auto target = is_tcp ? parse_tcp(*text) : parse_path(type, *text);
    if (!target) {
        place->reject(target.error().message);
        return std::nullopt;
    }
    return *std::move(target);
}

std::optional<std::string> read_name(Section &section) {
    const Value *const value = section.find("name");
    if (value == nullptr) {
        return std::nullopt;
    }
    auto name = value->text("a name");
    if (name && (name->empty() || name->size() > max_sink_name ||
                 to_valid_utf8(*name, max_sink_name) != *name)) {
        value->reject("must be 1 to " + std::to_string(max_sink_name) +
                      " bytes of text without control characters");
        return std::nullopt;
    }
    return name;
}

std::optional<TargetType> read_type(Section &section) {
    constexpr std::array types = {TargetType::file, TargetType::unix_socket, TargetType::tcp};
    const Value *const value = section.find("type");
    if (value == nullptr) {
        section.reject("has no type: every sink needs one, file, unix or tcp");
        return std::nullopt;
    }
    const auto index = value->choice({"file", "unix", "tcp"});
    return index ? std::optional(types.at(*index)) : std::nullopt;
}

constexpr std::pair<std::string_view, Events> events_names[] = {
    {"slow", Events::slow},
    {"all", Events::all},
    {"launch_gaps", Events::launch_gaps},
    {"out_of_memory", Events::out_of_memory},
    {"job_reports", Events::job_reports}};

// One word, or a list of them.
void read_events(Section &section, std::set<Events> &events) {
    const Value *const value = section.find("events");
    if (value == nullptr) {
        return;
    }
    std::vector<std::string> names;
    for (const auto &[name, unused] : events_names) {
        names.emplace_back(name);
    }
    std::vector<Value> items = {*value};
    if (value->node().IsSequence()) {
        auto list = value->list(
            "slow, all, launch_gaps, out_of_memory or job_reports, or a list "
            "of them",
            "kinds of events", 1, std::size(events_names));
        if (!list) {
            return;
        }
        items = *std::move(list);
    }
    events.clear();
    for (const Value &item : items) {
        if (const auto index = item.choice(names)) {
            events.insert(events_names[*index].second);
        }
    }
}

std::optional<SinkConfig> read_sink(const Value &value) {
    if (!value.is_mapping()) {
        value.wrong_type("a mapping of keys to values");
        return std::nullopt;
    }
    Section section(value);
    SinkConfig sink;
    const auto type = read_type(section);
    const auto name = read_name(section);
    read_events(section, sink.events);
    section.boolean("entries", sink.entries);
    if (sink.entries && !sink.events.contains(Events::all)) {
        section.reject("entries", "has no effect: only a sink with \"events: all\" has them");
    }
    section.size("queue_bytes", sink.queue_bytes, min_queue, max_queue);
    auto target = type ? read_target(section, *type) : std::nullopt;
    if (!type) {  // it is not known which key the sink should have
        (void)section.find("path");
        (void)section.find("address");
    }
    section.finish();
    if (!target) {
        return std::nullopt;
    }
    sink.target = *std::move(target);
    sink.name = name ? *name : to_valid_utf8(to_text(sink.target), max_sink_name);
    return sink;
}

// Wrong sinks are skipped and reported.
SinkConfigs read_list(const Value &list) {
    SinkConfigs sinks;
    if (list.node().IsNull()) {
        return sinks;  // `sinks:` and nothing else
    }
    const auto items = list.list("a list of sinks", "sinks", 0, max_sinks);
    if (!items) {
        return sinks;
    }
    std::map<std::string, int> lines;
    for (const Value &item : *items) {
        auto sink = read_sink(item);
        if (!sink) {
            continue;
        }
        const auto [first, is_new] = lines.emplace(sink->name, item.position().line + 1);
        if (!is_new) {
            item.reject("the name " + in_quotes(sink->name) + " is that of the sink on line " +
                        std::to_string(first->second) + " already");
            continue;
        }
        sinks.push_back(*std::move(sink));
    }
    return sinks;
}

std::string text_of(const SinkConfig &sink) {
    std::string text = to_text(sink.target);
    for (const auto &[name, events] : events_names) {
        text += sink.events.contains(events) ? " " + std::string(name) : "";
    }
    return text + (sink.entries ? " entries " : " ") + std::to_string(sink.queue_bytes) + " " +
           sink.name;
}

}  // namespace

bool want(const SinkConfigs &sinks, Events events) {
    return std::ranges::any_of(sinks,
                               [&](const auto &sink) { return sink.events.contains(events); });
}

void read_sinks(Section &file, config::Config &config) {
    SinkConfigs sinks;
    if (const Value *list = file.find("sinks")) {
        sinks = read_list(*list);
    }
    std::vector<std::string> texts;
    for (const SinkConfig &sink : sinks) {
        texts.push_back(text_of(sink));
    }
    file.note("sinks", texts);
    config.set(std::move(sinks));
}

}  // namespace gpusnoop::sinks
