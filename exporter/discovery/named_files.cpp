#include "exporter/discovery/named_files.h"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <utility>

#include "exporter/base/log.h"
#include "exporter/discovery/driver_library.h"

namespace gpusnoop::discovery {

namespace {

constexpr std::chrono::milliseconds max_wait{1000};
constexpr std::chrono::minutes left_out{5};
constexpr std::size_t max_files = 256;

// Also where the exporter is in no container, its service may not see all of the host's folders.
// Empty: the exporter may not enter it.
std::string host_root() {
    struct stat host{};
    return ::stat("/proc/1/root/.", &host) == 0 ? "/proc/1/root" : "";
}

}  // namespace

NamedFiles::NamedFiles(ebpf::MappingList &mappings, processes::MappingReader &paths)
    : mappings_(mappings), paths_(paths), root_(host_root()) {}

std::vector<std::string> NamedFiles::expand(const std::vector<std::string> &globs) const {
    std::vector<std::string> paths = driver_library_paths(root_);
    for (const std::string &glob : globs) {
        glob_t matched{};
        // NOCHECK: what matches nothing is a path, and does not exist.
        if (::glob((root_ + glob).c_str(), GLOB_NOCHECK, nullptr, &matched) == 0) {
            for (std::size_t n = 0; n < matched.gl_pathc; n++) {
                paths.push_back(std::string(matched.gl_pathv[n]).substr(root_.size()));
            }
        }
        ::globfree(&matched);
    }
    std::set<std::string> seen;
    std::erase_if(paths, [&](const std::string &path) { return !seen.insert(path).second; });
    if (paths.size() > max_files) {
        log::warn(
            "discovery.preattach matches too many files: attaching to the others only when a "
            "process maps them",
            {{"most", std::to_string(max_files)}});
        paths.resize(max_files);
    }
    return paths;
}

std::vector<ebpf::Mapping> NamedFiles::find(const std::vector<std::string> &globs) {
    found_.clear();
    const auto now = Clock::now();
    std::erase_if(left_out_, [now](const auto &entry) { return now >= entry.second; });
    for (const std::string &path : expand(globs)) {
        if (!left_out_.contains(path)) {
            identify(path);
        }
    }
    reader_.reset();
    std::vector<ebpf::Mapping> files;
    for (const auto &[id, found] : found_) {
        files.push_back(found.mapping);
    }
    return files;
}

// Most paths do not exist.
void NamedFiles::identify(const std::string &path) {
    if (!reader_) {
        auto reader = ForeignReader::start();
        if (!reader) {
            return;
        }
        reader_ = std::move(*reader);
    }
    if (!reader_->open(root_.empty() ? "/" : root_, path)) {
        return;
    }
    const auto answer = reader_->wait(max_wait);
    if (!answer || answer->error == EPIPE) {
        reader_.reset();
        left_out_[path] = Clock::now() + left_out;
        log::warn("a file to attach to before its first use does not answer", {{"path", path}});
        return;
    }
    if (answer->error != 0) {
        return;
    }
    auto mapping = mappings_.find(static_cast<std::uint32_t>(reader_->pid()), answer->number);
    if (!mapping) {
        return;
    }
    auto shown = paths_.path_of(*mapping);
    mapping->tgid = 0;
    mapping->tid = 1;
    mapping->start = mapping->end = mapping->file_offset = 0;
    mapping->is_program = false;
    const FileId id = mapping->file;
    found_.try_emplace(id, *std::move(mapping), std::move(shown).value_or(path));
}

std::string NamedFiles::path(const FileId &id) const {
    const auto found = found_.find(id);
    return found == found_.end() ? "" : found->second.path;
}

}  // namespace gpusnoop::discovery
