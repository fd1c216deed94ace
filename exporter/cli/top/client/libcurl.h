// libcurl, which only `top` uses. It loads thirty more libraries, takes 4 MiB of memory and needs
// initialization, so the exporter is not linked with it: `top` loads it at run time.
#pragma once

#include <curl/curl.h>
// curl's type-checking macros; here the names are members.
#undef curl_easy_getinfo
#undef curl_easy_setopt
#undef curl_multi_setopt

#include "exporter/base/result.h"

namespace gpusnoop::top {

// The libcurl functions that are used, by their names.
struct Libcurl {
    // Errors: "TLS, logins and names of hosts need libcurl (its packages): libcurl.so.4: cannot
    // open
    // ...". It stays loaded until the program ends.
    [[nodiscard]] static Result<Libcurl> load(const char *file = "libcurl.so.4");

    decltype(&::curl_easy_init) easy_init = nullptr;
    decltype(&::curl_easy_setopt) easy_setopt = nullptr;
    decltype(&::curl_easy_getinfo) easy_getinfo = nullptr;
    decltype(&::curl_easy_strerror) easy_strerror = nullptr;
    decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;
    decltype(&::curl_multi_init) multi_init = nullptr;
    decltype(&::curl_multi_setopt) multi_setopt = nullptr;
    decltype(&::curl_multi_add_handle) multi_add_handle = nullptr;
    decltype(&::curl_multi_remove_handle) multi_remove_handle = nullptr;
    decltype(&::curl_multi_socket_action) multi_socket_action = nullptr;
    decltype(&::curl_multi_info_read) multi_info_read = nullptr;
    decltype(&::curl_multi_cleanup) multi_cleanup = nullptr;
};

}  // namespace gpusnoop::top
