// The configuration: the settings of the whole program with their defaults, the blocks of its
// parts, and the strict reader of config.yaml.
//
// Each probe reads its own block (probes/*/settings.h). On a reload, the thread that was asked
// (main on SIGHUP, or a worker of the server) reads and checks the file; concurrent requests become
// one (base/single_flight.h). Every value is also kept as text (blocks.h): the log names each key
// whose text has changed although the change has no effect at run time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/base/log.h"
#include "exporter/base/result.h"
#include "exporter/config/blocks.h"

namespace gpusnoop::config {

// The settings of an operator. A Config{} holds the values of an empty file; /config.yaml has the
// same values, with a comment for each setting.
struct Config {
    std::string file;  // path of the file; empty: defaults only

    struct Web {
        std::vector<std::string> listen_addresses = {":19435"};
        std::string telemetry_path = "/metrics";
        // Set by flags only.
        std::string config_file = {};  // TLS and logins; empty: none
        bool systemd_socket = false;   // instead of the addresses
        bool has_lifecycle = false;    // POST /-/reload works
        bool has_api = false;          // documents for all clients
        bool operator==(const Web &) const = default;
    } web;

    struct Log {
        log::Level level = log::Level::info;
        log::Format format = log::Format::logfmt;
        bool operator==(const Log &) const = default;
    } log;

    struct Capabilities {
        enum class Keep { needed, all };

        Keep keep = Keep::needed;
        bool operator==(const Capabilities &) const = default;
    } capabilities;

    struct Labels {
        bool pid = false;
        bool script = true;
        bool stream = false;
        bool operator==(const Labels &) const = default;
    } labels;

    struct Series {
        // Label sets per metric family; `budgets` overrides it for single families, by full name.
        std::uint32_t budget = 2000;
        std::map<std::string, std::uint32_t> budgets;
        // How long a label set is kept after the last process behind it exited.
        std::chrono::milliseconds retention = std::chrono::minutes(10);
        bool operator==(const Series &) const = default;
    } series;

    struct Discovery {
        std::chrono::milliseconds rescan_interval = std::chrono::seconds(30);
        std::chrono::milliseconds keep = std::chrono::minutes(10);
        std::vector<std::string> preattach;  // globs of paths on the host
        // Where the NVIDIA driver lists the node's GPUs; absolute.
        std::string nvidia_proc_path = "/proc/driver/nvidia";
        // Files without probes: globs of paths, and build ids behind "build_id:".
        std::vector<std::string> exclude;
        bool operator==(const Discovery &) const = default;
    } discovery;

    // The settings of probes and sinks: each folder has its own.
    Blocks blocks;
    template <typename Block>
    [[nodiscard]] const Block &of() const {
        return blocks.of<Block>();
    }
    template <typename Block>
    void set(Block block) {
        blocks.set(std::move(block));
    }

    Values values;

    bool operator==(const Config &) const = default;
};

class Section;

// Reads a block of the file, whose keys only this reader knows, and sets it.
using ReadBlock = std::function<void(Section &file, Config &config)>;

// Reads `text`, or the file at `path`. An error's message holds every problem found, one per line
// and in the file's order: "file:line:column: key.path: sentence", line and column from 1 (the
// column counts bytes). `name` is the file's name in them. `metrics` are the names
// that `series.budgets` may use; empty leaves them unchecked.
[[nodiscard]] Result<Config> parse(std::string_view text, const std::string &name,
                                   std::span<const ReadBlock> blocks = {},
                                   std::span<const std::string> metrics = {});
[[nodiscard]] Result<Config> load(const std::string &path, std::span<const ReadBlock> blocks,
                                  std::span<const std::string> metrics = {});

}  // namespace gpusnoop::config
