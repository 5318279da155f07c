//! Archives of coded K/V rows, codec lmcache-cachegen version 2: docs/formats/archive.md. Copy it as it is.

const HEAD: usize = 16;
const RECORD: usize = 52;
const SEGMENT: usize = 16;

fn little(data: &[u8], at: usize, bytes: usize) -> usize {
    (0..bytes).fold(0, |sum, index| sum | (data[at + index] as usize) << (8 * index))
}

/// To the nearest f16, ties to even: adding this much leaves as many bits as f16 has.
fn half(x: f32) -> f32 {
    let exponent = ((x.to_bits() >> 23 & 255) as i32 - 127).max(-14);
    let big = f32::from_bits(((exponent - 10 + 23 + 127) as u32) << 23 | 0x400000);
    std::hint::black_box(x + big) - big
}

/// Decode one record behind the page so far; return the bytes that it takes.
fn record(data: &[u8], channels: usize, layer: usize, page: &mut Vec<u32>) -> Result<usize, &'static str> {
    if data.len() < RECORD + SEGMENT {
        return Err("format");
    }
    let (offset, decoded) = (little(data, 4, 8), little(data, 12, 8));
    let (count, length) = (little(data, 20, 8), little(data, 44, 8));
    let segment = &data[RECORD..];
    let (bins, bits) = (i32::from(segment[4]), usize::from(segment[5]));
    let (tokens, width, size) = (little(segment, 6, 2), little(segment, 8, 4), little(segment, 12, 4));
    let known = &segment[..4] == b"LCG2" && [(16, 4), (32, 5)].contains(&(bins, bits));
    if length > segment.len() || !known || !(1..=256).contains(&tokens) || !(1..=1 << 24).contains(&width) {
        return Err("format");
    }
    if size != (tokens * width * bits).div_ceil(8) || length != SEGMENT + 4 * tokens + size {
        return Err("format");
    }
    if data[2] != 0 || data[3] != 0 || little(data, 28, 8) != 0 || little(data, 36, 8) != 0 {
        return Err("format");
    }
    let f32_rows = data[0] == 3 && data[1] == 4 && width == channels;
    let room = page.len().checked_rem(layer).map_or(0, |done| layer - done); // rows of one layer
    let whole = offset == page.len() * 4 && count == tokens && decoded == tokens * width * 4;
    if !f32_rows || !whole || tokens * width > room {
        return Err("layout");
    }
    let (maxima, packed) = (&segment[SEGMENT..], &segment[SEGMENT + 4 * tokens..length]);
    let centre = bins / 2 - 1;
    for index in 0..tokens * width {
        let first = index * bits / 8;
        let word = usize::from(packed[first]) | usize::from(*packed.get(first + 1).unwrap_or(&0)) << 8;
        let symbol = (word >> (index * bits % 8) & ((1 << bits) - 1)) as i32;
        let most = little(maxima, index / width * 4, 4) as u32;
        if most >= 0x7f800000 || symbol > bins - 2 {
            return Err("format");
        }
        let value = half((symbol - centre) as f32 / centre as f32 * f32::from_bits(most));
        if value.is_nan() || value.abs() >= 65520.0 {
            return Err("format");
        }
        page.push(value.to_bits());
    }
    Ok(RECORD + length)
}

/// Decode an archive of `layers` layers of K, then of V, each `tokens` rows of `channels`, to the bits of f32.
pub fn decode(archive: &[u8], layers: usize, tokens: usize, channels: usize) -> Result<Vec<u32>, &'static str> {
    let layer = tokens * channels;
    if archive.len() < HEAD || &archive[..4] != b"CKG1" {
        return Err("format");
    }
    if little(archive, 4, 8) != 2 * layers * layer * 4 {
        return Err("layout");
    }
    let (mut page, mut at) = (Vec::new(), HEAD);
    for _ in 0..little(archive, 12, 4) {
        if page.len() == 2 * layers * layer {
            return Err("layout");
        }
        at += record(&archive[at..], channels, layer, &mut page)?;
    }
    if at != archive.len() {
        return Err("format");
    }
    if page.len() == 2 * layers * layer { Ok(page) } else { Err("layout") }
}
