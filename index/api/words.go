package api

import (
	"fmt"
	"net/http"
	"time"

	"golang.org/x/text/language"
)

// The languages of the pages: English, and Chinese for whoever prefers it.
var pageLanguages = []string{"en", "zh-Hans"}

var languageMatcher = language.NewMatcher([]language.Tag{language.English, language.SimplifiedChinese})

// languageOf gives the language of a page for a request.
func languageOf(r *http.Request) string {
	tags, _, err := language.ParseAcceptLanguage(r.Header.Get("Accept-Language"))
	if err != nil || len(tags) == 0 {
		return pageLanguages[0]
	}
	_, i, confidence := languageMatcher.Match(tags...)
	if confidence == language.No {
		return pageLanguages[0]
	}
	return pageLanguages[i]
}

// say gives a text of the pages in a language; args are for its verbs.
func say(lang, text string, args ...any) string {
	if lang != pageLanguages[0] {
		if zh, ok := chinese[text]; ok {
			text = zh
		}
	}
	if len(args) == 0 {
		return text
	}
	return fmt.Sprintf(text, args...)
}

func sayDay(lang string, t time.Time) string {
	if lang != pageLanguages[0] {
		return t.UTC().Format("2006年1月2日")
	}
	return t.UTC().Format("2 January 2006")
}

// chinese holds the words of the pages by their English ones.
var chinese = map[string]string{
	"OpenBot index":           "OpenBot 索引",
	"Skip to content":         "跳到正文",
	"not loaded yet":          "尚未加载",
	"Search apps":             "搜索应用",
	"What should an app do?":  "想用应用做什么？",
	"Search":                  "搜索",
	"Is an app missing?":      "没有找到应用？",
	"Submit":                  "提交",
	"Submitted":               "已提交",
	"Thank you":               "谢谢",
	"Listed by its publisher": "由发布者列出",
	"May be out of date":      "可能已过期",
	", last checked":          "，最近检查于",
	" since":                  "，开始于",
	".":                       "。",
	"Website":                 "网站",
	"Card":                    "卡片",
	"Apps for":                "搜索结果：",
	"No app for":              "没有找到：",
	"All apps":                "全部应用",
	"See all apps":            "查看全部应用",
	"There are no more apps.": "没有更多应用了。",
	"Back to the first ones":  "回到第一页",
	"Pages":                   "分页",
	"More apps":               "更多应用",
	"First page":              "第一页",
	"Tags":                    "标签",
	"What to ask it":          "可以这样问",
	"Facts":                   "详细信息",
	"Read at":                 "读取地址",
	"Endpoints at":            "服务端点",
	"not on a fixed host":     "没有固定主机",
	"Name":                    "名称",
	"Proof":                   "证明",
	"Checked":                 "检查时间",
	"For programs":            "程序接口",
	"About":                   "关于",

	"apps, each listed by its own publisher":             "每个应用都由其发布者自己列出",
	"1 app, listed by its own publisher":                 "1 个应用，由其发布者自己列出",
	"%d apps, each listed by its own publisher":          "%d 个应用，每个都由其发布者自己列出",
	"Domain or https address of the app":                 "应用的域名或 https 地址",
	"Was listed by its publisher":                        "曾由发布者列出",
	"in the catalog of its own site,":                    "见其网站自己的目录",
	"in the catalog that its card names,":                "见其卡片指明的目录",
	"in a catalog that its website names,":               "见其网站指明的目录",
	"The publisher's catalog could not be read":          "无法读取发布者的目录",
	"The app's card could not be read":                   "无法读取应用的卡片",
	"If you know the app's address, submit it below.":    "如果知道应用的地址，请在下面提交。",
	"This app has left the index":                        "此应用已不在索引中",
	"It was %s, until %s.":                               "地址是 %s，收录至 %s。",
	"Its publisher's catalog does not list it any more.": "其发布者的目录不再列出它。",
	"Its publisher asked that it not be indexed.":        "其发布者要求不收录它。",
	"Its card is gone.":                                  "其卡片已不存在。",
	"Its card is not a valid one any more.":              "其卡片不再有效。",
	"The operator of this index has removed it.":         "本索引的运营者已将它移除。",
	"Search for the app in a few minutes.":               "请过几分钟再搜索。",

	"Few apps have all of these words, so apps with some of them follow.":                                                                              "同时含有全部词语的应用很少，其后是只含部分词语的应用。",
	"A domain, an app page, a catalog or a card. The crawler looks at it soon. The app is listed once a catalog of its own publisher lists it.":        "可以是域名、应用页面、目录或卡片的地址。爬虫很快会访问它。发布者自己的目录列出该应用后，它才会被收录。",
	"Nothing in the index has these words. Try fewer words, other ones, or the publisher's domain.":                                                    "索引中没有这些词。请减少词语、换用别的词，或者输入发布者的域名。",
	"The index is empty so far. Submit the address of an app below, and the crawler will look at it.":                                                  "索引目前是空的。请在下面提交应用的地址，爬虫会去访问。",
	"Texts on this page are the publisher's own words. The index vouches for the origin and for the catalog that lists the app, for nothing else.":     "本页文字由发布者自己撰写。索引只确认来源以及列出该应用的目录，不担保其他内容。",
	"An app is listed when its publisher's own catalog lists it, in the order of relevance and nothing else. Names prove nothing; look at the origin.": "应用由其发布者自己的目录列出才会收录，只按相关性排序。名称不能证明身份，请看来源。",
	"Its card, or the catalog that lists it, could not be read for a long time.":                                                                       "其卡片或列出它的目录已长期无法读取。",
	"The crawler will look at this address. An app is listed once its publisher's own catalog lists it and robots.txt allows it.":                      "爬虫会访问这个地址。发布者自己的目录列出该应用，并且 robots.txt 允许时，它才会被收录。",

	// Headings of errors.
	http.StatusText(http.StatusBadRequest):            "请求有误",
	http.StatusText(http.StatusNotFound):              "没有找到",
	http.StatusText(http.StatusMethodNotAllowed):      "不允许此方法",
	http.StatusText(http.StatusGone):                  "已不存在",
	http.StatusText(http.StatusRequestEntityTooLarge): "内容过大",
	http.StatusText(http.StatusTooManyRequests):       "请求过多",
	http.StatusText(http.StatusInternalServerError):   "内部错误",
	http.StatusText(http.StatusServiceUnavailable):    "暂时无法服务",
}
