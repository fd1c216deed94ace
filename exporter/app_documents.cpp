// The pages of documents, which the counting thread makes.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "exporter/app.h"
#include "exporter/http/query.h"

namespace gpusnoop {

http::Response App::document_page(const http::Request &request) {
    const auto parameters = http::parse_query(request.query);
    if (!parameters) {
        return http::text_response(400, parameters.error().message + "\n");
    }
    const std::string_view name =
        std::string_view(request.path).substr(request.path.rfind('/') + 1);
    // Other requests wait for this one, so it must not wait long.
    const auto documents = pipeline_->documents(name, std::chrono::seconds(1));
    if (!documents) {
        return http::text_response(503, documents.error().message + "\n");
    }
    const auto document = std::ranges::find(*documents, name, &probes::ApiResource::name);
    if (document == documents->end()) {
        return http::text_response(503, "The probe that knows this is not up: / says why.\n");
    }
    auto written = document->write(*parameters);
    if (!written) {
        return http::text_response(400, written.error().message + "\n");
    }
    http::Response response;
    response.content_type = std::move(written->content_type);
    response.body = std::make_shared<const std::string>(std::move(written->text));
    return response;
}

}  // namespace gpusnoop
