#include "config/reload.hpp"

#include <utility>

namespace dovetail::config {

LevelSink::LevelSink(LogLevel level, std::shared_ptr<LogSink> next)
    : level_(level), next_(std::move(next)) {}

bool LevelSink::enabled(LogLevel level) const {
  return level != LogLevel::off && level >= level_ && next_->enabled(level);
}

void LevelSink::write(const LogRecord& record) {
  next_->write(record);
}

Reloader::Reloader(Sources sources, Loaded first, Logger log)
    : sources_(std::move(sources)), current_(std::move(first)), log_(std::move(log)) {}

void Reloader::on_reload(std::function<void(const Settings&)> apply) {
  applied_.push_back(std::move(apply));
}

void Reloader::after_reload(std::function<void(const Settings&)> apply) {
  applied_last_.push_back(std::move(apply));
}

void Reloader::report_to(Metrics metrics) {
  metrics_ = std::move(metrics);
  metrics_.gauge("dovetail_config_reload_success", 1, {});
}

bool Reloader::reload() {
  try {
    auto next = load(sources_);
    for (const auto& apply : applied_) apply(next.settings);
    for (const auto& apply : applied_last_) apply(next.settings);
    report_what_needs_a_restart(next);
    // A setting that needs a restart is reported again by the next reload.
    for (const auto& [setting, entry] : places_in(next.settings)) {
      if (setting->reloadable)
        setting->set(current_.settings, setting->get(next.settings, entry), entry);
    }
  } catch (const ConfigError& error) {
    for (const auto& problem : error.problems()) static_cast<void>(failed(problem));
    return false;
  } catch (const std::exception& error) {
    return failed((sources_.file.empty() ? "" : sources_.file + ": ") + error.what());
  }
  metrics_.gauge("dovetail_config_reload_success", 1, {});
  log_.write(LogLevel::info, "config.reloaded", {{"file", sources_.file}});
  return true;
}

bool Reloader::failed(const std::string& problem) {
  metrics_.gauge("dovetail_config_reload_success", 0, {});
  log_.write(LogLevel::error, "config.reload_failed", {{"error", problem}});
  return false;
}

void Reloader::report_what_needs_a_restart(const Loaded& next) const {
  for (const auto& [setting, entry] : places_in(next.settings)) {
    if (setting->reloadable) continue;
    if (setting->get(next.settings, entry) == setting->get(current_.settings, entry)) continue;
    log_.write(LogLevel::warn, "config.restart_needed", {{"setting", setting->name(entry)}});
  }
}

}  // namespace dovetail::config
