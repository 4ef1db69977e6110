#include "group/retired_platforms.hpp"

#include <utility>

namespace dovetail::group {

void RetiredPlatforms::add(std::shared_ptr<Platform> platform, MonoTime now) {
  runtime::PlatformAccess::retire(*platform);
  kept_.push_back({std::move(platform), now + keep_});
}

std::vector<std::shared_ptr<runtime::Node>> RetiredPlatforms::take_expired(MonoTime now) {
  std::vector<std::shared_ptr<runtime::Node>> nodes;
  while (!kept_.empty() && kept_.front().until <= now) {
    nodes.push_back(runtime::PlatformAccess::take_node(*kept_.front().platform));
    empty_.push_back(std::move(kept_.front().platform));
    kept_.pop_front();
  }
  return nodes;
}

}  // namespace dovetail::group
