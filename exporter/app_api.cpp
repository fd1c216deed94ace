// The pages of the API. The counting thread makes all but profiles.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "exporter/app.h"
#include "exporter/http/query.h"
#include "exporter/probes/profile/probe.h"
#include "exporter/status/page.h"
#include "exporter/system/machine.h"

namespace gpusnoop {

namespace {

http::Response response_of(probes::ApiResponse page) {
    http::Response response;
    response.content_type = std::move(page.content_type);
    response.body = std::make_shared<const std::string>(std::move(page.text));
    return response;
}

http::Response profile_response(Result<probes::ApiResponse> profile, probes::ProfileFormat format) {
    if (!profile) {
        return http::text_response(profile.error().code == ESRCH ? 404 : 503,
                                   "There is no profile: " + profile.error().message +
                                       limit_hint(profile.error().code) + ".\n");
    }
    http::Response response = response_of(*std::move(profile));
    response.is_compressed = format == probes::ProfileFormat::pprof;
    if (format == probes::ProfileFormat::svg) {
        response.more_head =
            "Content-Security-Policy: " + std::string(status::content_security_policy) + "\r\n";
    }
    return response;
}

}  // namespace

http::Response App::api_page(const http::Request &request) {
    const auto parameters = http::parse_query(request.query);
    if (!parameters) {
        return http::text_response(400, parameters.error().message + "\n");
    }
    const std::string_view name =
        std::string_view(request.path).substr(request.path.rfind('/') + 1);
    // Other requests wait for this one, so it must not wait long.
    const auto pages = pipeline_->api_pages(name, std::chrono::seconds(1));
    if (!pages) {
        return http::text_response(503, pages.error().message + "\n");
    }
    const auto page = std::ranges::find(*pages, name, &probes::ApiPage::name);
    if (page == pages->end()) {
        return http::text_response(503, "The probe of this page is not up: / says why.\n");
    }
    auto written = page->write(*parameters);
    if (!written) {
        return http::text_response(400, written.error().message + "\n");
    }
    return response_of(*std::move(written));
}

bool App::may_profile(const http::Request &request) const {
    return profiles_ && (request.is_trusted || config_.web.has_api);
}

void App::begin_profile(const http::Request &request, const http::Pending &client) {
    if (!profiles_) {
        return client.answer(http::text_response(
            404, "This exporter takes no profiles: profile.enabled is false.\n"));
    }
    if (!may_profile(request)) {
        return client.answer(http::private_response());
    }
    const auto parameters = http::parse_query(request.query);
    auto query = parameters
                     ? probes::read_profile_query(*parameters, config_.of<probes::ProfileConfig>())
                     : tl::unexpected(parameters.error());
    if (!query) {
        return client.answer(http::text_response(400, query.error().message + "\n"));
    }
    const auto format = query->format;
    const auto answer = client.answer;
    const auto begun = profiles_->begin(
        *std::move(query),
        {.socket = client.client, .answer = [answer, format](Result<probes::ApiResponse> profile) {
             answer(profile_response(std::move(profile), format));
         }});
    if (!begun) {
        answer(http::text_response(begun.error().code == EBUSY ? 409 : 503,
                                   "There is no profile: " + begun.error().message + ".\n"));
    }
}

}  // namespace gpusnoop
