#include <curl/curl.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>

#include "dovetail/otlp.hpp"
#include "server/otlp_json.hpp"

namespace dovetail {
namespace {

using CurlHandle = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;
using CurlLines = std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)>;

std::size_t ignore_body(char* /*data*/, std::size_t size, std::size_t count, void* /*user*/) {
  return size * count;
}

/// libcurl's functions are macros with variable arguments: the types must be exact.
void require_done(CURLcode code) {
  if (code != CURLE_OK) throw std::invalid_argument(curl_easy_strerror(code));
}

void require_between(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return;
  throw std::out_of_range(std::string{name} + " must be " + std::to_string(least) + " to " +
                          std::to_string(most));
}

OtlpOptions checked_otlp(OtlpOptions options) {
  if (!options.endpoint.starts_with("http://") && !options.endpoint.starts_with("https://"))
    throw std::invalid_argument("endpoint must be a URL that begins with http:// or https://");
  for (const auto& line : options.headers) {
    if (line.find_first_of("\r\n") != std::string::npos)
      throw std::invalid_argument("headers must not contain line breaks");
  }
  require_between("max_queue", static_cast<std::int64_t>(options.max_queue), 1, 1'000'000);
  require_between("max_batch", static_cast<std::int64_t>(options.max_batch), 1, 10'000);
  require_between("interval (in milliseconds)", options.interval.count(), 1, 60'000);
  require_between("timeout (in milliseconds)", options.timeout.count(), 1, 300'000);
  return options;
}

}  // namespace

class OtlpExporter::State {
 public:
  State(OtlpOptions options, Metrics metrics)
      : options_(checked_otlp(std::move(options))),
        metrics_(std::move(metrics)),
        handle_(curl_easy_init(), &curl_easy_cleanup),
        lines_(nullptr, &curl_slist_free_all) {
    if (!handle_) throw std::runtime_error("libcurl could not be initialised");
    set_up();
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }

  void add(const Span& span) {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= options_.max_queue) {
      ++counts_.dropped;
      metrics_.count("dovetail_trace_spans_total", 1, {{"result", "dropped"}});
      return;
    }
    waiting_.push_back(span);
    if (waiting_.size() >= options_.max_batch) wakes_.notify_one();
  }

  [[nodiscard]] OtlpCounts counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
  }

 private:
  void set_up() {
    curl_slist* lines = curl_slist_append(nullptr, "content-type: application/json");
    for (const auto& line : options_.headers) lines = curl_slist_append(lines, line.c_str());
    lines_.reset(lines);
    CURL* handle = handle_.get();
    require_done(curl_easy_setopt(handle, CURLOPT_URL, options_.endpoint.c_str()));
    require_done(curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https"));
    require_done(curl_easy_setopt(handle, CURLOPT_HTTPHEADER, lines_.get()));
    require_done(curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L));
    require_done(curl_easy_setopt(handle, CURLOPT_POST, 1L));
    require_done(curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, &ignore_body));
    require_done(
        curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, static_cast<long>(options_.timeout.count())));
  }

  /// After a stop request, one more round sends the spans that wait.
  void run(const std::stop_token& stop) {
    for (bool last = false; !last;) {
      std::vector<Span> batch;
      {
        std::unique_lock lock(mutex_);
        wakes_.wait_for(lock, stop, options_.interval,
                        [this] { return waiting_.size() >= options_.max_batch; });
        last = stop.stop_requested();
        batch = take(last ? waiting_.size() : options_.max_batch);
      }
      if (!batch.empty()) send(batch);
    }
  }

  /// Under the mutex.
  std::vector<Span> take(std::size_t most) {
    std::vector<Span> batch;
    while (!waiting_.empty() && batch.size() < most) {
      batch.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    return batch;
  }

  void send(const std::vector<Span>& batch) {
    const auto error = error_of(server::otlp_json(batch, options_.service_name));
    const std::lock_guard lock(mutex_);
    if (error) counts_.last_error = *error;
    (error ? counts_.dropped : counts_.sent) += batch.size();
    metrics_.count("dovetail_trace_spans_total", batch.size(),
                   {{"result", error ? "dropped" : "sent"}});
  }

  /// Absent: the collector has accepted the spans.
  std::optional<std::string> error_of(const std::string& body) {
    CURL* handle = handle_.get();
    curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    curl_easy_setopt(handle, CURLOPT_POSTFIELDS, body.data());
    const auto code = curl_easy_perform(handle);
    if (code != CURLE_OK) return curl_easy_strerror(code);
    long status = 0;
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 200 && status < 300) return std::nullopt;
    return "the collector answered " + std::to_string(status);
  }

  const OtlpOptions options_;
  const Metrics metrics_;
  CurlHandle handle_;  // used by the thread only
  CurlLines lines_;
  mutable std::mutex mutex_;  // guards the next members
  std::condition_variable_any wakes_;
  std::deque<Span> waiting_;
  OtlpCounts counts_;
  std::jthread thread_;
};

OtlpExporter::OtlpExporter(OtlpOptions options, Metrics metrics)
    : state_(std::make_unique<State>(std::move(options), std::move(metrics))) {}

OtlpExporter::~OtlpExporter() = default;

void OtlpExporter::end(const Span& span) {
  state_->add(span);
}

OtlpCounts OtlpExporter::counts() const {
  return state_->counts();
}

}  // namespace dovetail
