# Sidekiq as programs use it, unchanged. ESKER_PORT is the server's port.

require "minitest/autorun"
require "sidekiq/api"
require_relative "jobs"

PATIENCE = 60

class TestSidekiq < Minitest::Test
  def setup
    Sidekiq.redis(&:flushdb)
    @worker = spawn("sidekiq", "-r", File.join(__dir__, "jobs.rb"), "-c", "4", out: File::NULL, err: File::NULL)
  end

  def teardown
    Process.kill(:TERM, @worker)
    Process.wait(@worker)
  end

  def wait_until
    limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + PATIENCE
    until yield
      flunk("waited in vain") if Process.clock_gettime(Process::CLOCK_MONOTONIC) > limit
      sleep(0.01)
    end
  end

  def test_jobs_are_done_and_counted
    100.times { |number| Add.perform_async(number, number) }
    Add.perform_bulk((100...200).map { |number| [number, number] })
    wait_until { Sidekiq.redis { |r| r.llen("sums") } == 200 }
    sums = Sidekiq.redis { |r| r.lrange("sums", 0, -1) }
    assert_equal((0...200).map { |number| 2 * number }, sums.map(&:to_i).sort)
    wait_until { Sidekiq::ProcessSet.new.size == 1 }
    assert_equal(0, Sidekiq::Queue.new.size)
  end

  def test_a_job_that_fails_is_kept_to_be_tried_again
    Fail.perform_async
    retries = Sidekiq::RetrySet.new
    wait_until { retries.size == 1 }
    job = retries.first
    assert_equal(["Fail", "as wanted"], [job["class"], job["error_message"]])
    # The poller takes due jobs by a script, which the server does not have. So does a person:
    retries.each(&:retry)
    wait_until { retries.first&.item&.key?("retried_at") }
  end

  def test_a_job_is_kept_for_later
    Add.perform_in(3_600, 1, 2)
    scheduled = Sidekiq::ScheduledSet.new
    assert_equal([[1, 2]], scheduled.map(&:args))
    scheduled.each(&:add_to_queue)
    wait_until { Sidekiq.redis { |r| r.lrange("sums", 0, -1) } == ["3"] }
    assert_equal(0, scheduled.size)
  end
end
