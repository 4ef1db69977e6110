// The transports of a Platform.
#include <stdexcept>

#include "dovetail/platform.hpp"
#include "inbox/component.hpp"
#include "runtime/open.hpp"
#include "runtime/runtime.hpp"
#include "transport/consume_service.hpp"
#include "transport/publish_service.hpp"

namespace dovetail {
namespace {

runtime::Runtime& runtime_of(const Platform& platform) {
  return runtime::PlatformAccess::runtime_of(platform);
}

}  // namespace

void Platform::publish(std::string_view topic, std::shared_ptr<Publisher> publisher,
                       PublishOptions options) {
  const auto max_attempts = options.max_attempts.value_or(outbox().options().max_attempts);
  transport::Route route{.pattern = std::string{topic},
                         .publisher = std::move(publisher),
                         .options = std::move(options)};
  route.max_attempts = max_attempts;
  transport::require_route(route);
  runtime_of(*this).add_route(
      topic, [route](runtime::Node& node, const runtime::NodeHandlers& handlers) {
        return std::make_unique<transport::PublishService>(node, handlers, route);
      });
}

void Platform::consume(std::shared_ptr<Consumer> consumer, ConsumeOptions options) {
  const auto name = "consume " + options.source;
  const transport::Source source{.consumer = std::move(consumer), .options = std::move(options)};
  transport::require_source(source);
  runtime_of(*this).add_service(
      name, [source](runtime::Node& node, const runtime::NodeHandlers& /*handlers*/) {
        return std::make_unique<transport::ConsumeService>(node, node.get<inbox::Component>().inbox,
                                                           source);
      });
}

std::vector<TransportInfo> Platform::transports() const {
  std::vector<TransportInfo> all;
  runtime_of(*this).visit([&](const component::Service& service) {
    if (const auto* transport = dynamic_cast<const transport::Reports*>(&service)) {
      all.push_back(transport->info());
    }
  });
  return all;
}

}  // namespace dovetail
