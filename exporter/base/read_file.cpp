#include "exporter/base/read_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "exporter/base/fd.h"

namespace gpusnoop {

Result<std::string> read_start(const std::string &path, std::size_t most) {
    const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file) {
        return fail_errno("open " + path);
    }
    std::string text;
    std::size_t filled = 0;
    while (filled < most) {
        if (filled == text.size()) {
            text.resize(std::min(most, std::max<std::size_t>(1024, 2 * filled)));
        }
        const ssize_t got = ::read(file.get(), text.data() + filled, text.size() - filled);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return fail_errno("read " + path);
        }
        if (got == 0) {
            break;
        }
        filled += static_cast<std::size_t>(got);
    }
    text.resize(filled);
    return text;
}

}  // namespace gpusnoop
