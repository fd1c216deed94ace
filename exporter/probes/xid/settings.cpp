#include "exporter/probes/xid/settings.h"

#include <sys/utsname.h>

#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>

#include "exporter/config/reader.h"

namespace gpusnoop::probes {

namespace {

using Source = XidConfig::Source;

constexpr std::pair<std::string_view, Source> sources[] = {{"auto", Source::automatic},
                                                           {"driver", Source::driver},
                                                           {"printk", Source::printk},
                                                           {"kmsg", Source::kmsg}};

// The tracepoint printk:console has every line when it is logged since Linux 5.19 (commit
// 701850dc0c31); before, it had a line when it was shown on a console, and not those that are not
// shown. Nothing but the version says which it is.
bool traces_lines_when_logged() {
    constexpr std::pair<unsigned, unsigned> first{5, 19};
    struct utsname names{};
    if (::uname(&names) != 0) {
        return false;
    }
    const std::string_view release = names.release;
    const char *const end = release.data() + release.size();
    std::pair<unsigned, unsigned> version;
    const auto major = std::from_chars(release.data(), end, version.first);
    if (major.ec != std::errc() || major.ptr == end || *major.ptr != '.') {
        return false;
    }
    (void)std::from_chars(major.ptr + 1, end, version.second);
    return version >= first;
}

}  // namespace

void read_xid(config::Section xid, config::Config &config) {
    XidConfig value;
    xid.boolean("enabled", value.enabled);
    xid.choice("source", value.source, sources);
    xid.boolean("count_written_lines", value.count_written_lines);
    xid.ring_bytes("ring_bytes", value.ring_bytes);
    xid.finish();
    config.set(value);
}

bool xid_reads_kernel_log(const config::Config &config) {
    const auto &xid = config.of<XidConfig>();
    if (!xid.enabled || xid.source == Source::printk) {
        return false;
    }
    return xid.source == Source::kmsg || !traces_lines_when_logged();
}

}  // namespace gpusnoop::probes
