#include "exporter/cli/top/client/access.h"

#include <cstddef>

#include "exporter/base/read_file.h"

namespace gpusnoop::top {

Result<std::string> read_login(const std::string &file) {
    constexpr std::size_t most = 4'096;
    auto text = read_start(file, most);
    if (!text) {
        return fail_in("cannot read the login in " + file, text.error());
    }
    std::string line = text->substr(0, text->find_first_of("\r\n"));
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || colon == 0 || text->size() == most ||
        line.find('\0') != std::string::npos) {
        return fail("the first line of " + file + " is not USER:PASSWORD");
    }
    return line;
}

}  // namespace gpusnoop::top
