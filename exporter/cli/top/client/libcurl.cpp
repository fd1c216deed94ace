#include "exporter/cli/top/client/libcurl.h"

#include <dlfcn.h>

#include <string>

namespace gpusnoop::top {

namespace {

template <typename Function>
bool find(void *library, const char *name, Function &function) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    return function != nullptr;
}

}  // namespace

Result<Libcurl> Libcurl::load(const char *file) {
    void *const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    Libcurl curl;
    if (library == nullptr || !find(library, "curl_easy_init", curl.easy_init) ||
        !find(library, "curl_easy_setopt", curl.easy_setopt) ||
        !find(library, "curl_easy_getinfo", curl.easy_getinfo) ||
        !find(library, "curl_easy_strerror", curl.easy_strerror) ||
        !find(library, "curl_easy_cleanup", curl.easy_cleanup) ||
        !find(library, "curl_multi_init", curl.multi_init) ||
        !find(library, "curl_multi_setopt", curl.multi_setopt) ||
        !find(library, "curl_multi_add_handle", curl.multi_add_handle) ||
        !find(library, "curl_multi_remove_handle", curl.multi_remove_handle) ||
        !find(library, "curl_multi_socket_action", curl.multi_socket_action) ||
        !find(library, "curl_multi_info_read", curl.multi_info_read) ||
        !find(library, "curl_multi_cleanup", curl.multi_cleanup)) {
        return fail(std::string("TLS, logins and names of hosts need libcurl (Debian, Ubuntu: "
                                "libcurl4; RHEL: libcurl): ") +
                    ::dlerror());
    }
    return curl;
}

}  // namespace gpusnoop::top
