// Streams of a queue: messages that are handled in order.
#include "server/api/change.hpp"
#include "server/problem.hpp"

namespace dovetail::server::api {
namespace {

Response list_streams(const Api& api, const Request& request) {
  require_query(request, {"queue", "blocked", "limit", "cursor"});
  const auto platform = database_of(api, request);
  const auto limit = limit_of(request);
  StreamPage page{.size = limit + 1, .only_blocked = flag_of(request, "blocked")};
  if (const auto after = cursor_values(request, 1)) page.after = cursor_text(after->at(0));
  auto list = queue_of(*platform, request).streams(page);
  const bool more = drop_last(list, limit);
  return answer({{"streams", json::to_json_array(list)},
                 {"next", more ? ordered_json(cursor_of({list.back().stream})) : nullptr}});
}

Response show_stream(const Api& api, const Request& request) {
  require_query(request, {"queue"});
  const auto platform = database_of(api, request);
  const auto& stream = request.parameter("stream");
  const auto found = queue_of(*platform, request).find_stream(stream);
  if (!found) throw Problem(404, "the stream \"" + stream + "\" has no messages");
  return answer(json::to_json(*found));
}

Response change_stream(Change& change, bool skip) {
  const auto& stream = change.request().parameter("stream");
  const auto name = change.body().text("queue").value_or("outbox");
  auto& queue = queue_of(change.platform(), name);
  change.describe(name + "/" + stream);
  return change.make([&] {
    const bool changed = skip ? queue.skip_stream(stream) : queue.resume_stream(stream);
    return Changed{
        .answer = {{"queue", name}, {"stream", stream}, {skip ? "skipped" : "resumed", changed}},
        .count = changed ? 1 : 0};
  });
}

}  // namespace

void add_stream_routes(RouteTable& routes, const Api& api) {
  const std::string one = "/api/v1/streams/{stream}";
  add_read(routes, "/api/v1/streams",
           [api](const Request& request) { return list_streams(api, request); });
  add_read(routes, one, [api](const Request& request) { return show_stream(api, request); });
  add_change(routes, api,
             {.pattern = one + "/resume", .action = "stream.resume", .handler = [](Change& change) {
                return change_stream(change, false);
              }});
  add_change(routes, api,
             {.pattern = one + "/skip", .action = "stream.skip", .handler = [](Change& change) {
                return change_stream(change, true);
              }});
}

}  // namespace dovetail::server::api
