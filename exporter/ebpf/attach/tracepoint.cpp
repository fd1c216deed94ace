#include "exporter/ebpf/attach/tracepoint.h"

#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>

#include "exporter/base/unsupported.h"

namespace gpusnoop::ebpf {

namespace {

// The number after "<key>:" in a line such as "field:int pid;\toffset:4;\tsize:4;\tsigned:1;".
std::optional<std::uint32_t> number_of(std::string_view line, std::string_view key) {
    const std::size_t at = line.find(key);
    if (at == std::string_view::npos) {
        return std::nullopt;
    }
    const std::string_view rest = line.substr(at + key.size());
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    return error == std::errc() ? std::optional(number) : std::nullopt;
}

}  // namespace

TracepointFields parse_tracepoint_format(std::string_view text) {
    TracepointFields fields;
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        const std::size_t begin = line.find("field:");
        const std::size_t end = line.find(';');
        const auto offset = number_of(line, "offset:");
        const auto size = number_of(line, "size:");
        if (begin == std::string_view::npos || end == std::string_view::npos || end < begin ||
            !offset || !size) {
            continue;
        }
        std::string_view declaration = line.substr(begin + 6, end - begin - 6);
        declaration = declaration.substr(0, declaration.find('[', declaration.rfind(' ') + 1));
        fields.insert_or_assign(std::string(declaration.substr(declaration.rfind(' ') + 1)),
                                TracepointField{*offset, *size});
    }
    return fields;
}

Result<TracepointFields> tracepoint_fields(const std::string &category, const std::string &name) {
    const std::string tracepoint = category + ":" + name;
    const auto exists = [](const std::string &path) { return ::access(path.c_str(), F_OK) == 0; };
    for (const std::string root : {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}) {
        const std::string path = root + "/events/" + category + "/" + name + "/format";
        std::ifstream file(path);
        std::stringstream text;
        if (file && text << file.rdbuf()) {
            return parse_tracepoint_format(text.str());
        }
        if (exists(path)) {
            return fail("the tracepoint " + tracepoint + " cannot be read: " + path, EACCES);
        }
        if (exists(root + "/events")) {
            return fail_unsupported("this kernel has no tracepoint " + tracepoint);
        }
    }
    // The kernel makes this directory if it has tracefs.
    if (!exists("/sys/kernel/tracing")) {
        return fail_unsupported("this kernel has no tracefs, and so no tracepoint " + tracepoint);
    }
    if (struct statfs status{};
        ::statfs("/sys/kernel/tracing", &status) == 0 && status.f_type == TRACEFS_MAGIC) {
        return fail("the tracepoint " + tracepoint +
                        " cannot be found: tracefs cannot be read at /sys/kernel/tracing",
                    EACCES);
    }
    return fail_unsupported("tracefs is not mounted: " + std::string(mount_tracefs));
}

}  // namespace gpusnoop::ebpf
