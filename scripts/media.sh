# shellcheck shell=bash disable=SC2154
# Sourced by ./run: videos made by Debian's ffmpeg go into a store, are played in part, come out again and go.
# Where ffmpeg cannot be had, files of random bytes take their place.

# Seconds of each video, and its size in pixels.
video_seconds=40 video_size=1280x720
[ "${ESKER_RUN_SMALL:-}" != 1 ] || { video_seconds=10 video_size=640x360; }

have_ffmpeg() {
  have ffmpeg && return
  [ "$(id -u)" = 0 ] && on_debian && install_packages ffmpeg >"$data/out/ffmpeg.log" 2>&1 && have ffmpeg
}

# video FILE CODEC...: one with a moving picture, a clock in it.
video() {
  local file=$1
  shift
  ffmpeg -v error -nostdin -y -f lavfi -i "testsrc2=size=$video_size:rate=25:duration=$video_seconds" "$@" "$file"
}

make_videos() {
  local dir=$data/input/videos n
  mkdir -p "$dir/films" "$dir/clips"
  if have_ffmpeg; then
    for n in 1 2; do
      video "$dir/films/$n.mkv" -c:v libx264 -preset ultrafast -qp $((8 + n))
      video "$dir/films/$n.mp4" -c:v mpeg4 -q:v "$n"
      video "$dir/clips/$n.avi" -c:v mjpeg -q:v $((n + 1))
    done
  else
    say "no ffmpeg here: files of random bytes in the place of videos"
    for n in 1 2 3; do
      { printf '\032E\337\243'; head -c $((video_seconds * 500000 * n)) /dev/urandom; } >"$dir/films/$n.mkv"
    done
  fi
  say "videos:   $(find "$dir" -type f | wc -l) files, $(mib "$(bytes_of "$dir")")"
}

# peak COMMAND...: runs it and leaves the most memory that it was seen to have, in KiB, in peak_kib.
peak() {
  local pid seen status=0
  peak_kib=0
  "$@" &
  pid=$!
  while seen=$(awk '/^VmHWM/ { print $2 }' "/proc/$pid/status" 2>/dev/null) && [ -n "$seen" ]; do
    [ "$seen" -le "$peak_kib" ] || peak_kib=$seen
    sleep 0.02
  done
  wait "$pid" || status=$?
  return $status
}

store_space() { du -s --block-size=1 "$ESKER_DB" | cut -f 1; }

# Parts from the beginning, the middle, across the end, compared with the file's.
play_parts() {
  local dir=$1 key len from parts=0
  while IFS= read -r key; do
    len=$(stat -c %s "$dir/$key")
    for from in 0 $((len / 3)) $((len / 2 + 4097)) $((len - 1000)); do
      "$esker" get "$key" --range "$from-$((from + 999999))" --tree media >"$data/out/part"
      dd if="$dir/$key" iflag=skip_bytes,count_bytes skip="$from" count=1000000 bs=64K status=none | cmp - "$data/out/part" ||
        stop "$key from byte $from on: the store's bytes differ from the file's"
      parts=$((parts + 1))
    done
  done < <(cd "$dir" && find . -type f -printf '%P\n')
  say "played in part: $parts ranges of up to 1 MB, each as in its file"
  have ffmpeg || return 0
  # A player needs no more than what it shows.
  "$esker" get films/1.mkv --range 0-2999999 --tree media >"$data/out/part"
  ffmpeg -v error -nostdin -i "$data/out/part" -frames:v 25 -f null - || stop "the first 3 MB of films/1.mkv do not play"
  say "decoded a second of films/1.mkv from its first 3 MB"
}

media() {
  heading "videos"
  local dir=$data/input/videos files bytes before full after
  make_videos
  files=$(find "$dir" -type f | wc -l)
  bytes=$(find "$dir" -type f -printf '%s\n' | awk '{ sum += $1 } END { printf "%d", sum }')
  before=$(store_space)
  timed "videos: esker import FOLDER" "$files" "$bytes" peak "$esker" import "$dir" --tree media
  say "memory of the import: $((peak_kib / 1024)) MiB seen"
  full=$(store_space)
  timed "videos: import again, unchanged" "$files" "$bytes" "$esker" import "$dir" --tree media
  "$esker" ls --tree media
  play_parts "$dir"
  timed "videos: esker export FOLDER" "$files" "$bytes" peak "$esker" export "$data/out/videos/" --tree media
  say "memory of the export: $((peak_kib / 1024)) MiB seen"
  diff -r -x .esker-export "$dir" "$data/out/videos" || stop "the exported videos differ from the files"
  say "exported videos: as the files are"
  local key
  while IFS= read -r key; do "$esker" delete "$key" --tree media; done < <(cd "$dir" && find . -type f -printf '%P\n')
  after=$(store_space)
  say "space of the store: $(mib "$before") before, $(mib "$full") with the videos, $(mib "$after") after deleting them"
  [ $((after - before)) -lt $((16 << 20)) ] || stop "the space of deleted videos did not come back"
  rm -rf "$data/out/videos"
}
